package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// print writes e as tables. What a server sent is quoted where it is not plain.
func (e *explanation) print(w io.Writer) error {
	fmt.Fprintf(w, "%s: %s. Clock: %s.\n\n", e.line, e.Verdict, e.Clock)
	if len(e.Fields) == 0 {
		fmt.Fprint(w, "No field speaks of limits.\n\n")
	} else {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "FIELD\tVALUE\tREAD AS\tWHY")
		for _, r := range e.Fields {
			means, why := r.Means, r.Why
			if r.Dropped != "" {
				if means == "" {
					means, why = "dropped", r.Dropped
				} else {
					why = strings.TrimPrefix(why+"; dropped "+r.Dropped, "; ")
				}
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", r.Field, short(r.Values), means, why)
		}
		if err := t.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	if len(e.Quotas) > 0 {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "QUOTA\tUNIT\tLIMIT\tLEFT\tWINDOW\tRESET IN")
		for _, q := range e.Quotas {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", dash(plain(q.Name)), plain(q.Unit), count(q.Limit), count(q.Remaining),
				dash(q.Window), dash(q.Reset))
		}
		if err := t.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	if e.RetryAfter != "" {
		fmt.Fprintf(w, "Delay asked for: %s.\n", e.RetryAfter)
	}
	if e.Retry != "" {
		fmt.Fprintf(w, "Try again: %s.\n", e.Retry)
	}
	_, err := fmt.Fprintf(w, "The next call %s.\n", e.Next.Text)
	return err
}

// short writes values on one line of a table, without what a terminal obeys.
func short(values []string) string {
	s := plain(strings.Join(values, " | "))
	if len(s) > 44 {
		s = s[:41] + "..."
	}
	return s
}

func plain(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) >= 0 {
		return fmt.Sprintf("%+q", s)
	}
	return s
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func count(n int64) string {
	if n < 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

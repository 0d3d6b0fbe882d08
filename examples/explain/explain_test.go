package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/comity/comity"
	"github.com/stretchr/testify/require"
)

// held is the wait that a hold lengthens by a random part.
var held = regexp.MustCompile(`(waits about |"wait": ")[0-9.hms]+`)

func output(t *testing.T, text string, flags ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "head")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	var b bytes.Buffer
	require.NoError(t, run(&b, len(flags) > 0 && flags[0] == "-json", "auto", []string{file}))
	return held.ReplaceAllString(b.String(), "$1…")
}

func TestSampleIsExplained(t *testing.T) {
	for _, c := range []struct{ file, flag string }{{"sample.txt", ""}, {"sample.json", "-json"}} {
		want, err := os.ReadFile(filepath.Join("testdata", c.file))
		require.NoError(t, err)
		got := output(t, sample)
		if c.flag != "" {
			got = output(t, sample, c.flag)
			require.True(t, json.Valid([]byte(got)))
		}
		require.Equal(t, string(want), got, c.file)
	}
}

// Every response of the corpus is explained: what is dropped has a reason, and
// what is a time has a unit.
func TestCorpusIsExplained(t *testing.T) {
	text, err := os.ReadFile("../../testdata/headers/corpus.json")
	require.NoError(t, err)
	var cases []struct {
		ID      string
		Status  int
		Date    time.Time
		Headers [][2]string
	}
	require.NoError(t, json.Unmarshal(text, &cases))
	for _, c := range cases {
		head := fmt.Sprintf("HTTP/1.1 %d\r\nDate: %s\r\n", c.Status, c.Date.Format("Mon, 02 Jan 2006 15:04:05 GMT"))
		for _, f := range c.Headers {
			if f[0] != "Date" && f[0] != "date" && !strings.ContainsAny(f[1], "\r\n") {
				head += f[0] + ": " + f[1] + "\r\n"
			}
		}
		res, err := parseHead(head + "\r\n")
		require.NoError(t, err, c.ID)
		e, err := explain(res, comity.Auto, time.Now())
		require.NoError(t, err, c.ID)
		dropped := map[string]bool{}
		for _, r := range e.Fields {
			dropped[r.Field] = r.Dropped != ""
			require.False(t, r.Means == "" && r.Dropped == "", "%s: %+v", c.ID, r)
			if strings.Contains(r.Means, "wait ") || strings.Contains(r.Means, "reset in") {
				require.NotEmpty(t, r.Why, "%s: %+v", c.ID, r)
			}
		}
		for _, name := range comity.ParseAdvice(res.header, c.Date).Malformed {
			require.True(t, dropped[name], "%s: %s", c.ID, name)
		}
		require.NoError(t, e.print(&bytes.Buffer{}))
	}
}

func TestLastHeadIsTheOneThatCounts(t *testing.T) {
	res, err := parseHead("HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" +
		"HTTP/2 429 \r\nretry-after: 3\r\nx: 1\r\nx: 2\r\n\r\n{\"body\": true}\r\nHTTP/9 is not read\r\n")
	require.NoError(t, err)
	require.Equal(t, 429, res.status)
	require.Equal(t, []string{"Retry-After", "X"}, res.names)
	require.Equal(t, []string{"1", "2"}, res.header["X"])
}

func TestWhatIsNoHeadIsRefused(t *testing.T) {
	for _, text := range []string{"", "<html>", "HTTP/1.1\n", "HTTP/1.1 abc\n", "HTTP/1.1 200 OK\nno colon here\n"} {
		_, err := parseHead(text)
		require.Error(t, err, "%q", text)
	}
	require.Error(t, run(&bytes.Buffer{}, false, "klingon", nil))
	require.Error(t, run(&bytes.Buffer{}, false, "auto", []string{"testdata/none"}))
}

func TestOutputObeysNoServer(t *testing.T) {
	got := output(t, "HTTP/1.1 429 X\nRateLimit: \"a\";r=0;t=5\nRetry-After: \x1b[2J5\n")
	require.NotContains(t, got, "\x1b")
}

func TestDialectIsUsed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "head")
	require.NoError(t, os.WriteFile(file, []byte("HTTP/1.1 429 X\nX-Rate-Limit-Remaining: 0\nX-Rate-Limit-Reset: 5000\n"), 0o600))
	var b bytes.Buffer
	require.NoError(t, run(&b, false, "delta-ms", []string{file}))
	require.Contains(t, b.String(), "reset in 5s")
	require.Contains(t, b.String(), "milliseconds from now")
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/comity/comity"
)

const (
	refundsURL = "https://pay.example/v1/refunds"
	chargesURL = "https://pay.example/v1/charges"
	labelsURL  = "https://ship.example/labels"
)

// outcome is the end of a call, as its caller sees it.
type outcome struct {
	status int
	err    error
	took   time.Duration
}

// post makes a call.
func (s *stage) post(ctx context.Context, url, merchant string, header ...string) outcome {
	began := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"amount":100}`))
	if err != nil {
		return outcome{err: err}
	}
	req.Header.Set("Merchant-Id", merchant)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := s.client.Do(req)
	if err != nil {
		return outcome{err: err, took: time.Since(began)}
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return outcome{res.StatusCode, err, time.Since(began)}
}

// show prints an outcome, and what one's own caller would be told of it.
func (s *stage) show(o outcome) {
	if o.err == nil {
		fmt.Fprintf(s.out, "  %d after %s\n", o.status, tenths(o.took))
		return
	}
	own := httptest.NewRecorder()
	relay(own, o.err)
	fmt.Fprintf(s.out, "  after %s: %v\n", tenths(o.took), o.err)
	fmt.Fprintf(s.out, "    own callers get %d", own.Code)
	if after := own.Header().Get("Retry-After"); after != "" {
		fmt.Fprintf(s.out, " with Retry-After: %s", after)
	}
	fmt.Fprintf(s.out, "; errors.Is ErrThrottled %v, DeadlineExceeded %v\n",
		errors.Is(o.err, comity.ErrThrottled), errors.Is(o.err, context.DeadlineExceeded))
}

func tenths(d time.Duration) time.Duration { return d.Truncate(100 * time.Millisecond) }

// crowd makes n calls at once and returns how they ended, in their order.
func (s *stage) crowd(n int, url, merchant string) []outcome {
	ends := make([]outcome, n)
	var callers sync.WaitGroup
	for i := range n {
		callers.Go(func() { ends[i] = s.post(s.ctx, url, merchant) })
	}
	callers.Wait()
	return ends
}

// sum prints what a crowd came to, with the first refusal of each reason.
func (s *stage) sum(ends []outcome) {
	served, last := 0, time.Duration(0)
	refused := map[comity.Reason][]outcome{}
	for _, o := range ends {
		var e *comity.ThrottledError
		if errors.As(o.err, &e) {
			refused[e.Reason] = append(refused[e.Reason], o)
		} else if o.status == http.StatusOK {
			served, last = served+1, max(last, o.took)
		}
	}
	fmt.Fprintf(s.out, "  %d answered, the last after %s\n", served, tenths(last))
	for _, reason := range []comity.Reason{comity.ReasonLimit, comity.ReasonQueue, comity.ReasonInFlight} {
		if n := len(refused[reason]); n > 0 {
			fmt.Fprintf(s.out, "  %d refused, reason %q:\n", n, reason)
			s.show(refused[reason][0])
		}
	}
}

func (s *stage) refunds() { s.sum(s.crowd(40, refundsURL, "m1")) }

func (s *stage) others() {
	var busy sync.WaitGroup
	busy.Go(func() { s.crowd(10, refundsURL, "m1") })
	time.Sleep(100 * time.Millisecond)
	s.show(s.post(s.ctx, refundsURL, "m2"))
	s.show(s.post(s.ctx, chargesURL, "m1"))
	busy.Wait()
}

func (s *stage) hurried() {
	var busy sync.WaitGroup
	busy.Go(func() { s.crowd(10, refundsURL, "m1") })
	time.Sleep(100 * time.Millisecond)
	ctx, cancel := context.WithTimeout(s.ctx, 300*time.Millisecond)
	defer cancel()
	s.show(s.post(ctx, refundsURL, "m1"))
	busy.Wait()
}

func (s *stage) givesUp() {
	var busy sync.WaitGroup
	busy.Go(func() { s.crowd(10, refundsURL, "m1") })
	time.Sleep(100 * time.Millisecond)
	ctx, cancel := context.WithCancelCause(s.ctx)
	time.AfterFunc(200*time.Millisecond, func() { cancel(errors.New("the shop closed its window")) })
	s.show(s.post(ctx, refundsURL, "m1"))
	busy.Wait()
}

func (s *stage) queue() { s.sum(s.crowd(12, labelsURL, "m1")) }

// answers makes a call to a partner that answers the first with code, and tells
// how often it was called.
func (s *stage) answers(code int, told http.Header, header ...string) {
	before := len(s.net.pay.Hits())
	s.net.pay.Fail(1, code, told)
	s.show(s.post(s.ctx, chargesURL, "m1", header...))
	fmt.Fprintf(s.out, "  calls that the partner received: %d\n", len(s.net.pay.Hits())-before)
}

func (s *stage) told()        { s.answers(429, http.Header{"Retry-After": {"1"}}) }
func (s *stage) unavailable() { s.answers(503, nil) }
func (s *stage) idempotent()  { s.answers(503, nil, "Idempotency-Key", "charge-17") }
func (s *stage) lost()        { s.answers(0, nil) }

func (s *stage) closed() {
	s.answers(429, http.Header{"Retry-After": {"3600"}})
	s.show(s.post(s.ctx, chargesURL, "m1"))
	for _, d := range s.rt.Destinations() {
		if held := time.Until(d.HeldUntil); held > 0 {
			fmt.Fprintf(s.out, "  %s is held for %s\n", d.Key, held.Truncate(time.Minute))
		}
	}
}

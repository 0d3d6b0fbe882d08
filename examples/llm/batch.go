package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/comity/comity"
)

// batch is a number of prompts to be answered.
type batch struct {
	prompts, workers int
	settle           bool
	client           *http.Client
	url              string

	mu   sync.Mutex
	done result
}

func newBatch(prompts, workers int, settle bool) *batch {
	return &batch{prompts: prompts, workers: workers, settle: settle}
}

// result is how far a batch has come.
type result struct {
	answered, failed int
	estimated, used  int // tokens of those answered
}

// question and reply are what goes to the model and comes back.
type question struct {
	Prompt    string `json:"prompt"`
	MaxTokens int    `json:"max_tokens"`
}

type reply struct {
	Text  string `json:"text"`
	Usage struct {
		TotalTokens int `json:"total_tokens"`
	} `json:"usage"`
}

// run answers all prompts, or as many as it can until ctx ends.
func (b *batch) run(ctx context.Context) result {
	next := make(chan int)
	var wg sync.WaitGroup
	for range b.workers {
		wg.Go(func() {
			for i := range next {
				b.answer(ctx, prompt(i))
			}
		})
	}
	for i := range b.prompts {
		next <- i
	}
	close(next)
	wg.Wait()
	return b.done
}

// answer asks the model one question.
func (b *batch) answer(ctx context.Context, q question) {
	estimate := count(q.Prompt) + q.MaxTokens
	ctx = comity.WithCall(ctx, comity.Call{
		Cost:       comity.Cost{"tokens": estimate},
		Idempotent: true, // asking twice does no harm
	})
	used, err := b.ask(ctx, q)
	if err == nil && b.settle {
		comity.Settle(ctx, comity.Cost{"tokens": used})
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.done.failed++
		return
	}
	b.done.answered++
	b.done.estimated += estimate
	b.done.used += used
}

// ask sends q and returns the tokens that the model says it took.
func (b *batch) ask(ctx context.Context, q question) (used int, err error) {
	body, err := json.Marshal(q)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+"/v1/completions", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	res, err := b.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("the model answers %s", res.Status)
	}
	var r reply
	err = json.NewDecoder(res.Body).Decode(&r)
	return r.Usage.TotalTokens, err
}

// progress says how far the batch is, and when it will be done if the rest takes
// as much of its estimates as those did that were answered.
func (b *batch) progress(now time.Time) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	left := b.prompts - b.done.answered - b.done.failed
	s := fmt.Sprintf("%d of %d answered, %d tokens", b.done.answered, b.prompts, b.done.used)
	if b.done.answered == 0 {
		return s
	}
	each := b.done.estimated / b.done.answered
	if b.settle {
		each = b.done.used / b.done.answered
	}
	wait := max(lasts(left, requests), lasts(left*each, tokens)).Round(time.Second)
	return fmt.Sprintf("%s, done at %s (in %s)", s, now.Add(wait).Format(time.TimeOnly), wait)
}

// lasts returns the time in which l lets n units pass.
func lasts(n int, l comity.Limit) time.Duration {
	return time.Duration(n) * (l.Per / time.Duration(l.N))
}

// prompt returns the i-th question: 50 to 350 words, and room for as much again
// and more.
func prompt(i int) question {
	words := 50 + i*97%300
	return question{Prompt: strings.Repeat("word ", words), MaxTokens: 600}
}

// count returns the tokens of a text, for which words do here.
func count(text string) int { return len(strings.Fields(text)) }

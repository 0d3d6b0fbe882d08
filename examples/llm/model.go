package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/comity/comity"
	"github.com/comity/comity/comitytest"
)

// model is a fake language model that counts requests and tokens, and says in
// X-RateLimit headers what is left of each.
type model struct{ api *comitytest.API }

// took carries what an answer takes from where it is known to where it is
// counted: this model knows what it will say before it has begun.
const took = "Tokens"

func newModel() *model {
	metered := tokens
	metered.Cost = func(r *http.Request) int { return atoi(r.Header.Get(took)) }
	return &model{&comitytest.API{
		Limits:  []comity.Limit{requests, metered},
		Dialect: comity.XRateLimit,
		Handler: http.HandlerFunc(complete),
	}}
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q question
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Header.Set(took, strconv.Itoa(count(q.Prompt)+completion(q)))
	m.api.ServeHTTP(w, r)
}

// complete answers in a time that grows with the tokens.
func complete(w http.ResponseWriter, r *http.Request) {
	n := atoi(r.Header.Get(took))
	select {
	case <-time.After(time.Duration(n) * time.Millisecond):
	case <-r.Context().Done():
		return
	}
	var out reply
	out.Text = "so it is"
	out.Usage.TotalTokens = n
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out) // whoever left does not want it
}

// completion returns the tokens of the answer to q: a sixth to two thirds of
// what it may take.
func completion(q question) int {
	h := 17
	for _, c := range q.Prompt[:min(len(q.Prompt), 1<<10)] {
		h = (h*31 + int(c)) % 10_007
	}
	return q.MaxTokens/6 + (h+strings.Count(q.Prompt, " "))%(q.MaxTokens/2+1)
}

// refused returns how many calls went over a limit.
func (m *model) refused() int { return len(m.api.Over()) }

func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

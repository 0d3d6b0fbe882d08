package main

import (
	"context"
	"sync"
	"time"
)

// naive is the control: workers that take page after page, as they were found, and
// wait wherever they are told to. It keeps to the same rules, with the same
// Transport.
type naive struct {
	c *crawler

	mu    sync.Mutex
	moved sync.Cond
	f     *frontier
	todo  []*host // a page each
	busy  int
	first map[string]*rulesLock
}

// rulesLock lets one worker ask for a robots.txt, and the others wait.
type rulesLock struct {
	sync.Mutex
	gone bool // it cannot be had
}

func newNaive(c *crawler) *naive {
	n := &naive{c: c, f: newFrontier(), first: map[string]*rulesLock{}}
	n.moved.L = &n.mu
	return n
}

// add queues a page unless it is known; the lock is held.
func (n *naive) add(link string) {
	url, name, ok := canonical(link)
	if !ok || n.f.seen[url] {
		return
	}
	n.f.seen[url] = true
	if n.first[name] == nil {
		n.first[name] = new(rulesLock)
	}
	n.todo = append(n.todo, &host{name: name, pages: []*page{{url: url}}})
	n.moved.Signal()
}

func (n *naive) run(ctx context.Context, workers int, seeds []string) error {
	n.mu.Lock()
	for _, link := range seeds {
		n.add(link)
	}
	n.mu.Unlock()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() { n.work(ctx) })
	}
	wg.Wait()
	return ctx.Err()
}

func (n *naive) work(ctx context.Context) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		for len(n.todo) == 0 && n.busy > 0 {
			n.moved.Wait()
		}
		if len(n.todo) == 0 || ctx.Err() != nil {
			n.moved.Broadcast()
			return
		}
		h, first := n.todo[0], n.first[n.todo[0].name]
		n.todo = n.todo[1:]
		n.busy++
		n.mu.Unlock()
		links := n.fetch(ctx, h, first)
		n.mu.Lock()
		n.busy--
		for _, link := range links {
			n.add(link)
		}
		if n.busy == 0 {
			n.moved.Broadcast()
		}
	}
}

// fetch waits until the page of h is fetched or given up.
func (n *naive) fetch(ctx context.Context, h *host, first *rulesLock) (links []string) {
	first.Lock()
	if first.gone {
		first.Unlock()
		return nil
	}
	h.robots = robotsFile{rules: n.c.rulesOf(h.name), ask: time.Now().Add(robotsLife)}
	for h.robots.rules == nil && len(h.pages) > 0 && ctx.Err() == nil {
		n.c.knowRobots(ctx, h, time.Now())
		sleep(ctx, time.Until(h.robots.ask), h.robots.rules == nil)
	}
	first.gone = h.robots.rules == nil
	first.Unlock()
	for len(h.pages) > 0 && ctx.Err() == nil {
		links = append(links, n.c.fetch(ctx, h)...)
	}
	return links
}

// sleep waits for d if it has to.
func sleep(ctx context.Context, d time.Duration, must bool) {
	if !must {
		return
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

package main

import (
	"container/heap"
	"context"
	"time"
)

// host is a host with pages to fetch, and when the next of them may be fetched. Only
// who was handed it uses it.
type host struct {
	name   string
	ready  time.Time
	pages  []*page
	robots robotsFile
	errors int // in a row, without an answer

	found []*page // while somebody has it; of the frontier
}

// page is a page yet to be fetched.
type page struct {
	url   string
	tries int
}

// frontier is the pages that are known and not yet fetched, by host. It hands out
// the host that is ready first, to one worker at a time: so nobody waits for a host.
type frontier struct {
	hosts map[string]*host
	seen  map[string]bool // pages by URL, in one spelling
	ready byReady
	busy  map[*host]bool
}

func newFrontier() *frontier {
	return &frontier{hosts: map[string]*host{}, seen: map[string]bool{}, busy: map[*host]bool{}}
}

// add queues a page unless it is known.
func (f *frontier) add(link string) {
	url, name, ok := canonical(link)
	if !ok || f.seen[url] {
		return
	}
	f.seen[url] = true
	h := f.hosts[name]
	if h == nil {
		h = &host{name: name}
		f.hosts[name] = h
	}
	if f.busy[h] {
		h.found = append(h.found, &page{url: url})
		return
	}
	h.pages = append(h.pages, &page{url: url})
	if len(h.pages) == 1 {
		heap.Push(&f.ready, h)
	}
}

// visit is what became of a host that was handed out.
type visit struct {
	host  *host
	links []string
}

// run hands out hosts until no page is left. fetch deals with the first page of a
// host, and says in its ready when the next may be fetched.
func (f *frontier) run(ctx context.Context, workers int, fetch func(*host) []string) error {
	out, back := make(chan *host), make(chan visit)
	defer close(out)
	for range workers {
		go func() {
			for h := range out {
				back <- visit{h, fetch(h)}
			}
		}()
	}
	for len(f.ready)+len(f.busy) > 0 {
		var to chan<- *host
		var first *host
		var later <-chan time.Time
		if len(f.ready) > 0 && ctx.Err() == nil {
			first = f.ready[0]
			if wait := time.Until(first.ready); wait > 0 {
				later = time.After(wait)
			} else {
				to = out
			}
		}
		select {
		case to <- first:
			heap.Pop(&f.ready)
			f.busy[first] = true
		case v := <-back:
			delete(f.busy, v.host)
			v.host.pages, v.host.found = append(v.host.pages, v.host.found...), nil
			if len(v.host.pages) > 0 {
				heap.Push(&f.ready, v.host)
			}
			for _, link := range v.links {
				f.add(link)
			}
		case <-later:
		case <-ctx.Done():
			if len(f.busy) == 0 {
				return ctx.Err()
			}
			v := <-back
			delete(f.busy, v.host)
		}
	}
	return ctx.Err()
}

// byReady is a heap of hosts: first the one that is ready first.
type byReady []*host

func (q byReady) Len() int           { return len(q) }
func (q byReady) Less(i, j int) bool { return q[i].ready.Before(q[j].ready) }
func (q byReady) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *byReady) Push(x any)        { *q = append(*q, x.(*host)) }
func (q *byReady) Pop() any {
	last := len(*q) - 1
	h := (*q)[last]
	*q = (*q)[:last]
	return h
}

package comitytest

import (
	"io"
	"net/http"
	"slices"
	"sync"
)

func requestURI(t *trial) {
	s := t.serve(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path) })
	req := t.get(s.url + "/path")
	req.RequestURI = "/path"
	r := t.answered(t.wrapped(s), req)
	if got := t.text(r.Response); got != "/path" {
		t.Errorf("the server was asked for %q", got)
	}
}

func framingFields(t *trial) {
	base := t.stub(t.script(status(200))...)
	req := t.put("http://"+hostA, "content")
	req.Close = true
	req.ContentLength = -1
	req.TransferEncoding = []string{"chunked"}
	t.answered(t.wrapped(base), req).close()
	t.count(base, t.tries())
	for i, c := range base.seen() {
		if !c.copy.Close || c.copy.ContentLength != -1 || !slices.Equal(c.copy.TransferEncoding, []string{"chunked"}) {
			t.Errorf("try %d has Close %v, ContentLength %d, TransferEncoding %v", i+1,
				c.copy.Close, c.copy.ContentLength, c.copy.TransferEncoding)
		}
	}
}

// connectAndUpgrade: what follows the headers of such a request belongs to
// another protocol, so its answer is the caller's, whatever it says.
func connectAndUpgrade(t *trial) {
	f := t.setback()
	connect := t.get("http://" + hostA)
	connect.Method = "CONNECT"
	upgrade := t.get("http://" + hostA)
	upgrade.Header.Set("Connection", "Upgrade")
	upgrade.Header.Set("Upgrade", "websocket")
	for name, req := range map[string]*http.Request{"CONNECT": connect, "Upgrade": upgrade} {
		base := t.stub(f.answer, status(200))
		r := t.try(t.wrapped(base), req)
		t.count(base, 1)
		if f.status != 0 && (r.err != nil || r.Response == nil || r.StatusCode != f.status) {
			t.Errorf("%s: got %v, %v; want the %d", name, r.Response, r.err, f.status)
		}
		r.close()
	}
}

func cancelChannel(t *trial) {
	base := t.stub(t.script(status(200))...)
	req := t.put("http://"+hostA, "content")
	//lint:ignore SA1019 http.Client still sets it for transports it does not know
	req.Cancel = make(chan struct{})
	t.answered(t.wrapped(base), req).close()
	t.count(base, t.tries())
	for i, c := range base.seen() {
		//lint:ignore SA1019 as above
		if c.copy.Cancel != req.Cancel {
			t.Errorf("try %d has lost Request.Cancel", i+1)
		}
	}
}

func lengthZeroWithBody(t *trial) {
	var mu sync.Mutex
	var got []string
	h := t.setbackFirst(func(w http.ResponseWriter, r *http.Request) {})
	s := t.serve(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		mu.Lock()
		got = append(got, string(b))
		mu.Unlock()
		h(w, r)
	})
	req := t.put(s.url, "content")
	req.ContentLength = 0
	t.answered(t.wrapped(s), req).close()
	mu.Lock()
	if want := slices.Repeat([]string{"content"}, t.tries()); !slices.Equal(got, want) {
		t.Errorf("the server got %q, want %q", got, want)
	}
	mu.Unlock()
	t.bodiesClosed()
}

package comitytest

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// upload is a request body that keeps account of itself.
type upload struct {
	what  string // in reports
	atEOF func()

	mu     sync.Mutex
	r      *strings.Reader
	reads  int
	late   bool // read after Close
	shut   bool
	closed chan struct{}
}

func (u *upload) Read(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.reads++
	if u.shut {
		u.late = true
		return 0, errAfterClose
	}
	n, err := u.r.Read(p)
	if err == io.EOF && u.atEOF != nil {
		u.atEOF()
		u.atEOF = nil
	}
	return n, err
}

func (u *upload) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.shut {
		u.shut = true
		close(u.closed)
	}
	return nil
}

// state returns how often it was read, and whether after Close.
func (u *upload) state() (reads int, late bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.reads, u.late
}

// ledger lists the request bodies of a case.
type ledger struct {
	mu  sync.Mutex
	all []*upload
}

// upload returns a new body with the given content.
func (t *trial) upload(what, content string) *upload {
	u := &upload{what: what, r: strings.NewReader(content), closed: make(chan struct{})}
	t.uploads.mu.Lock()
	defer t.uploads.mu.Unlock()
	t.uploads.all = append(t.uploads.all, u)
	return u
}

// bodiesClosed waits until each body handed out is closed, the copies that
// GetBody made as well, and fails the case if one never is or was read later. It
// then forgets them.
func (t *trial) bodiesClosed() {
	t.Helper()
	t.uploads.mu.Lock()
	all := t.uploads.all
	t.uploads.all = nil
	t.uploads.mu.Unlock()
	enough := time.NewTimer(min(t.patience, 2*time.Second))
	defer enough.Stop()
	for _, u := range all {
		select {
		case <-u.closed:
		case <-enough.C:
			enough.Reset(0) // the others have had that time as well
			t.Errorf("%s was not closed", u.what)
		}
		if _, late := u.state(); late {
			t.Errorf("%s was read after Close", u.what)
		}
	}
}

// get returns a GET of url.
func (t *trial) get(url string) *http.Request {
	t.Helper()
	return t.request("GET", url, nil)
}

func (t *trial) request(method, url string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// send returns a request of method with content, which can be had again.
func (t *trial) send(method, url, content string) *http.Request {
	t.Helper()
	req := t.request(method, url, nil)
	req.Body = t.upload(method+"'s body", content)
	req.ContentLength = int64(len(content))
	req.GetBody = func() (io.ReadCloser, error) {
		return t.upload(method+"'s copy of its body, from GetBody,", content), nil
	}
	return req
}

// put returns a PUT with a key: whoever tries anything with a body again tries
// this.
func (t *trial) put(url, content string) *http.Request {
	t.Helper()
	req := t.send("PUT", url, content)
	req.Header.Set("Idempotency-Key", "k1")
	return req
}

// once returns a request whose body cannot be had again.
func (t *trial) once(method, url, content string) *http.Request {
	t.Helper()
	req := t.send(method, url, content)
	req.GetBody = nil
	return req
}

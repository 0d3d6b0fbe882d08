package comity

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// aside is the answer to a try, kept while the call waits for the next one: what
// refuses that one gives it to the caller after all.
type aside struct {
	res  *http.Response
	err  error
	rest io.ReadCloser // what of the body is still on the wire; nil if nothing
}

const (
	asideBytes = 4 << 10
	asideTime  = 50 * time.Millisecond
)

// setAside reads as much of an answer as it is worth to have the connection free
// at once. A body that stalls is closed: nothing else ends a blocked Read.
func setAside(res *http.Response, err error) aside {
	if res == nil || res.Body == nil || res.Body == http.NoBody {
		return aside{res: res, err: err}
	}
	from := res.Body
	var stalled atomic.Bool
	timer := time.AfterFunc(asideTime, func() {
		stalled.Store(true)
		from.Close()
	})
	kept, readErr := readUpTo(from, asideBytes, res.ContentLength)
	if !timer.Stop() {
		stalled.Store(true) // or just about to
	}
	s := aside{res: res, err: err}
	k := &keptBody{left: kept, end: readErr}
	res.Body = k
	switch {
	case readErr == io.EOF:
		from.Close()
	case stalled.Load():
		k.end = io.ErrUnexpectedEOF
		from.Close()
	case readErr != nil:
		from.Close()
	default:
		k.rest, s.rest = from, from
	}
	return s
}

// readUpTo reads at most most bytes. Its error is nil if there may be more.
func readUpTo(r io.Reader, most int, length int64) ([]byte, error) {
	size := 512
	if length > 0 {
		size = int(min(length+1, int64(most))) // one more, so that the end is seen
	}
	buf := make([]byte, 0, size)
	for {
		if len(buf) == cap(buf) {
			if len(buf) >= most {
				return buf, nil
			}
			buf = append(make([]byte, 0, min(2*cap(buf), most)), buf...)
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err != nil {
			return buf, err
		}
	}
}

// take gives the answer to the caller.
func (s *aside) take() (*http.Response, error) { return s.res, s.err }

// drop lets go of an answer that the caller does not get.
func (s *aside) drop() {
	if s.rest != nil {
		s.rest.Close()
		s.rest = nil
	}
}

// keptBody is the body of a response that was set aside.
type keptBody struct {
	left   []byte
	rest   io.ReadCloser // what follows; nil is end
	end    error
	closed atomic.Bool
}

var errClosedBody = errors.New("comity: read on a closed response body")

func (k *keptBody) Read(p []byte) (int, error) {
	if k.closed.Load() {
		return 0, errClosedBody
	}
	if len(k.left) > 0 {
		n := copy(p, k.left)
		k.left = k.left[n:]
		return n, nil
	}
	if k.rest != nil {
		return k.rest.Read(p)
	}
	return 0, k.end
}

func (k *keptBody) Close() error {
	k.closed.Store(true)
	if k.rest != nil {
		return k.rest.Close()
	}
	return nil
}

package egress

import (
	"net/http"
	"strings"

	"github.com/comity/comity"
)

// Header carries the criticality of a request between services.
const Header = "Request-Criticality"

// Inbound puts the criticality that a request's Header states in its context.
// Strip the header where strangers call. Unknown values are ignored.
//
// Calls made with the request's context, and with contexts derived from it, then
// have that criticality unless they state their own.
func Inbound(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c := parse(r.Header.Get(Header)); c != 0 {
			r = r.WithContext(comity.WithCall(r.Context(), comity.Call{Criticality: c}))
		}
		next.ServeHTTP(w, r)
	})
}

// parse returns the criticality that s names; 0 if it names none.
func parse(s string) comity.Criticality {
	s = strings.TrimSpace(s)
	for c := comity.Sheddable; c <= comity.CriticalPlus; c++ {
		if c != 0 && strings.EqualFold(s, c.String()) {
			return c
		}
	}
	return 0
}

// Outbound states the criticality of each request's context in its Header. It is
// for services of your own: it tells every host it calls.
//
// A request whose context states none is sent as it is. A nil next is
// [http.DefaultTransport]. The result passes CloseIdleConnections on and has an
// Unwrap method.
func Outbound(next http.RoundTripper) http.RoundTripper { return &outbound{next} }

type outbound struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (o *outbound) RoundTrip(req *http.Request) (*http.Response, error) {
	c := comity.CallFrom(req.Context()).Criticality
	if c == 0 || req.Header == nil {
		return o.Unwrap().RoundTrip(req)
	}
	stated := *req // a RoundTripper must not change the request
	stated.Header = req.Header.Clone()
	stated.Header.Set(Header, c.String())
	res, err := o.Unwrap().RoundTrip(&stated)
	if res != nil && res.Request == &stated {
		res.Request = req
	}
	return res, err
}

// Unwrap returns the RoundTripper that o sends through.
func (o *outbound) Unwrap() http.RoundTripper {
	if o.next == nil {
		return http.DefaultTransport
	}
	return o.next
}

// CloseIdleConnections calls the method of the same name of what o sends through.
func (o *outbound) CloseIdleConnections() {
	if c, ok := o.Unwrap().(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

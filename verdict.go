package comity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"syscall"
	"time"
)

// classify gives a its Verdict, from the status or the error, and reads what the
// headers advise.
func (a *try) classify() {
	a.Advice.RetryAfter = -1
	p := a.turn.pol
	if res := a.Response; res != nil {
		a.Advice.Quotas = a.quotas[:0]
		a.d.reader.read(p.Dialect, res.Header, a.now, res.StatusCode >= 400, &a.Advice)
		a.Verdict = statusVerdict(res.StatusCode, &a.Advice)
		a.d.spoke(res.ProtoMajor)
	} else {
		a.fault = a.faultOf(a.Err)
		a.Verdict = a.fault.verdict()
		if a.fault == faultExpired && a.expiredEarly() {
			a.Verdict = Canceled
		}
	}
	if p.Classify == nil {
		return
	}
	usual := a.Verdict
	a.Verdict = p.Classify(&a.Attempt)
	a.told = a.Verdict != usual
}

// statusVerdict returns what a status says about the destination. Where a status
// has other meanings too, only its headers tell that it means a limit. A delay of
// 0 does not: some servers send one with every answer.
func statusVerdict(code int, adv *Advice) Verdict {
	switch code {
	case http.StatusTooManyRequests:
		return Limited
	case http.StatusForbidden:
		if adv.RetryAfter > 0 || slices.ContainsFunc(adv.Quotas, func(q Quota) bool { return q.Remaining == 0 }) {
			return Limited
		}
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusTeapot, 420:
		if adv.RetryAfter > 0 {
			return Limited
		}
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
		520, 521, 522, 523, 524, 529:
		return Overloaded
	}
	if code >= 500 {
		return Broken
	}
	return Accepted
}

// neutral reports whether a's answer says nothing of the destination's load,
// though it is not the answer that was asked for.
func (a *try) neutral() bool {
	return a.Response != nil && a.Verdict == Accepted && resentOnce(a.Response.StatusCode)
}

// resentOnce reports whether a status asks for the same request once more, for
// reasons that have nothing to do with load: 408, 421 and 425.
func resentOnce(code int) bool {
	return code == http.StatusRequestTimeout || code == http.StatusMisdirectedRequest || code == http.StatusTooEarly
}

// expiredEarly reports whether the caller's deadline says nothing about the
// destination: it gave a too little time, or others were answered meanwhile.
func (a *try) expiredEarly() bool {
	const least = 100 * time.Millisecond
	return a.Call.Stream || a.Latency < least || a.Latency.Microseconds() < int64(a.d.latency.Load())/2 ||
		a.d.accepted.Load() > int64(a.Sent.Sub(a.t.epoch))
}

// fault is what an error of the base means.
type fault uint8

const (
	faultNone        fault = iota
	faultCaller            // the caller's: nothing will change it
	faultCanceled          // the caller gave up
	faultExpired           // the caller's deadline
	faultLocal             // this machine could not open a connection
	faultUnsent            // provably not sent
	faultUnprocessed       // sent, and the server says that it did not look at it
	faultCalm              // the same, because this client asks too much
	faultLost              // it may have been carried out
	faultAnswer            // an answer that cannot be read
)

func (f fault) verdict() Verdict {
	switch f {
	case faultCaller, faultLocal, faultNone:
		return Unsent
	case faultCanceled:
		return Canceled
	case faultCalm:
		return Limited
	case faultAnswer:
		return Broken
	}
	return Overloaded
}

// faultOf tells what err means. The caller's context is asked first: with a cause,
// its error is neither Canceled nor DeadlineExceeded, and errors.Is finds
// DeadlineExceeded in a dialer's timeout too.
func (a *try) faultOf(err error) fault {
	switch a.root.Context().Err() {
	case nil:
	case context.DeadlineExceeded:
		return faultExpired
	default:
		return faultCanceled
	}
	var late *tryTimeout
	if errors.As(err, &late) || errors.Is(err, errResent) {
		return faultLost
	}
	if f := http2Fault(err); f != faultNone {
		return f
	}
	if isCertificate(err) || isMistake(err) {
		return faultCaller
	}
	if f := dialFault(err); f != faultNone {
		return f
	}
	var protocol textproto.ProtocolError
	if errors.As(err, &protocol) || containsAny(err.Error(), unreadableTexts) {
		return faultAnswer
	}
	if hasBody(a.root) && !fromNetwork(err) {
		return faultCaller // most likely its own Body's Read failed
	}
	return faultLost
}

// dialFault tells what an error of a connection that was never there means.
func dialFault(err error) fault {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		if dns.IsNotFound || !dns.IsTemporary && !dns.IsTimeout {
			return faultCaller
		}
		return faultUnsent
	}
	var op *net.OpError
	if errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect" || strings.HasPrefix(op.Op, "socks")) {
		if slices.ContainsFunc(localErrnos, func(e syscall.Errno) bool { return errors.Is(err, e) }) {
			return faultLocal
		}
		return faultUnsent
	}
	if strings.Contains(err.Error(), "TLS handshake timeout") { // net/http keeps its type to itself
		return faultUnsent
	}
	return faultNone
}

// localErrnos are this machine's own trouble.
var localErrnos = []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM,
	syscall.EADDRNOTAVAIL, syscall.ENETUNREACH, syscall.ENETDOWN}

func isCertificate(err error) bool {
	var (
		verification *tls.CertificateVerificationError
		record       tls.RecordHeaderError
		unknown      x509.UnknownAuthorityError
		hostname     x509.HostnameError
		invalid      x509.CertificateInvalidError
		op           *net.OpError
	)
	return errors.As(err, &verification) || errors.As(err, &record) ||
		errors.As(err, &unknown) || errors.As(err, &hostname) || errors.As(err, &invalid) ||
		errors.Is(err, http.ErrSchemeMismatch) ||
		errors.As(err, &op) && op.Op == "remote error" // a TLS alert
}

// The texts of errors that net/http makes of nothing but text.
var (
	mistakeTexts = []string{"net/http: invalid ", "unsupported protocol scheme", "http: ContentLength=",
		"http: nil Request.", "http: no Host in request URL", "http: Request.RequestURI"}
	unreadableTexts = []string{"server response headers exceeded", "transport connection broken: malformed",
		"transport connection broken: unsupported transfer encoding", "transport connection broken: bad ",
		"transport connection broken: http: "}
	networkTexts = []string{"net/http: ", "http: server closed", "http2: ", "tls: "}
)

func isMistake(err error) bool { return containsAny(err.Error(), mistakeTexts) }

func containsAny(s string, texts []string) bool {
	return slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(s, t) })
}

func fromNetwork(err error) bool {
	var (
		n     net.Error
		errno syscall.Errno
	)
	return errors.As(err, &n) || errors.As(err, &errno) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || containsAny(err.Error(), networkTexts)
}

// http2StreamError has the fields of the type of the same name in x/net, by which
// the one of net/http lets itself be found with errors.As (net/http/h2_error.go).
type http2StreamError struct {
	StreamID uint32
	Code     http2Code
	Cause    error
}

func (e http2StreamError) Error() string { return "comity: HTTP/2 stream error" }

type http2Code uint32

// Of RFC 9113, section 7.
const (
	http2RefusedStream http2Code = 0x7
	http2Calm          http2Code = 0xb
)

// http2Fault tells what an error of HTTP/2 means. Those of a whole connection are
// but text, in net/http and in x/net.
func http2Fault(err error) fault {
	var stream http2StreamError
	if errors.As(err, &stream) {
		switch stream.Code {
		case http2Calm:
			return faultCalm
		case http2RefusedStream:
			return faultUnprocessed
		}
		return faultLost
	}
	s := err.Error()
	if !strings.Contains(s, "http2: ") {
		return faultNone
	}
	switch {
	case strings.Contains(s, "ENHANCE_YOUR_CALM"):
		return faultCalm
	case strings.Contains(s, "cannot retry err"), strings.Contains(s, "received GOAWAY"),
		strings.Contains(s, "graceful shutdown GOAWAY"), strings.Contains(s, "REFUSED_STREAM"):
		return faultUnprocessed
	}
	return faultNone
}

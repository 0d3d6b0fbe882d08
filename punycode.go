package comity

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// asciiHost returns the form of an internationalised host name that DNS and
// other spellings of it share: each label with letters beyond ASCII becomes
// "xn--" and its punycode (RFC 3492, RFC 5890). A name that cannot be encoded is
// returned in lower case.
func asciiHost(host string) string {
	if !utf8.ValidString(host) {
		return lowerBytes(host)
	}
	lower := strings.Map(foldRune, host)
	labels := strings.Split(lower, ".")
	for i, label := range labels {
		if isASCII(label) {
			continue
		}
		code, ok := punycode(label)
		if !ok {
			return lower
		}
		labels[i] = "xn--" + code
	}
	return strings.Join(labels, ".")
}

// foldRune maps a rune of a host name to the one it stands for: lower case, the
// full-width forms to ASCII, and the dots of other scripts (RFC 3490, section
// 3.1) to a full stop.
func foldRune(r rune) rune {
	switch {
	case r == '\u3002' || r == '\uff0e' || r == '\uff61':
		return '.'
	case r >= '\uff01' && r <= '\uff5e':
		r -= '\uff01' - '!'
	case r == '\u00ad' || r == '\u200b': // soft hyphen, zero width space: nothing is seen of them
		return -1
	}
	return unicode.ToLower(r)
}

// lowerBytes lowers the ASCII letters of s and leaves the rest, whatever it is.
func lowerBytes(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// The parameters of punycode, RFC 3492, section 5.
const (
	punyBase = 36
	punyMin  = 1
	punyMax  = 26
	punySkew = 38
	punyDamp = 700
	punyBias = 72

	// A label has at most 63 bytes on the wire, so at most as many runes. The
	// bound keeps the arithmetic below far from overflow.
	punyRunes = 63
)

// punycode encodes one label, RFC 3492, section 6.3.
func punycode(label string) (string, bool) {
	runes := []rune(label)
	if len(runes) > punyRunes {
		return "", false
	}
	var out []byte
	for _, r := range runes {
		if r < utf8.RuneSelf {
			out = append(out, byte(r))
		}
	}
	basic := len(out)
	if basic > 0 {
		out = append(out, '-')
	}
	n, delta, bias := rune(utf8.RuneSelf), 0, punyBias
	for handled := basic; handled < len(runes); {
		next := rune(unicode.MaxRune)
		for _, r := range runes {
			if r >= n {
				next = min(next, r)
			}
		}
		delta += int(next-n) * (handled + 1)
		for _, r := range runes {
			if r < next {
				delta++
			}
			if r != next {
				continue
			}
			out = punyNumber(out, delta, bias)
			bias = punyAdapt(delta, handled+1, handled == basic)
			delta = 0
			handled++
		}
		delta++
		n = next + 1
	}
	return string(out), true
}

// punyNumber appends delta as a generalised variable-length integer.
func punyNumber(out []byte, delta, bias int) []byte {
	const digits = "abcdefghijklmnopqrstuvwxyz0123456789"
	for k := punyBase; ; k += punyBase {
		t := min(max(k-bias, punyMin), punyMax)
		if delta < t {
			return append(out, digits[delta])
		}
		out = append(out, digits[t+(delta-t)%(punyBase-t)])
		delta = (delta - t) / (punyBase - t)
	}
}

func punyAdapt(delta, points int, first bool) int {
	if first {
		delta /= punyDamp
	} else {
		delta /= 2
	}
	delta += delta / points
	k := 0
	for ; delta > (punyBase-punyMin)*punyMax/2; k += punyBase {
		delta /= punyBase - punyMin
	}
	return k + (punyBase-punyMin+1)*delta/(delta+punySkew)
}

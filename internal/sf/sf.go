// Package sf reads and writes the part of Structured Field Values (RFC 9651)
// that the RateLimit header fields need: Lists of Items with parameters. It
// reads from the string it is given, member by member, and builds no tree.
package sf

import (
	"encoding/base64"
	"errors"
	"strings"
	"unicode/utf8"
)

// Kind is the type of a [Value].
type Kind uint8

// Kinds of values. An InnerList is checked, but its items are not kept.
const (
	Invalid Kind = iota
	Integer
	Decimal
	String
	Token
	Bytes
	Boolean
	Date
	DisplayString
	InnerList
)

// Value is one bare item.
type Value struct {
	Kind Kind
	Int  int64  // an Integer, a Decimal times 1000, seconds of a Date, 0 or 1
	Text string // a String or DisplayString without its escapes, a Token, the base64 of Bytes
}

// Errors that [Reader.Err] returns.
var (
	ErrSyntax   = errors.New("sf: not a List of RFC 9651")
	ErrTrailing = errors.New("sf: a List may not end in a comma")
)

// Reader reads the members of one List. A List is valid only as a whole: what
// was read before Err returned an error counts for nothing.
type Reader struct {
	s     string
	i     int
	v     Value
	begun bool
	err   error
}

// NewReader returns a Reader of the List s. A field sent on several lines is
// read from these lines joined by commas.
func NewReader(s string) Reader { return Reader{s: s} }

// Next moves to the next member, over parameters that were not read. It
// returns false at the end of the List and at the first error.
func (r *Reader) Next() bool {
	if r.err != nil {
		return false
	}
	if !r.begun {
		r.begun = true
		r.space()
		if r.i == len(r.s) {
			return false
		}
		return r.member()
	}
	for {
		if _, _, ok := r.Param(); !ok {
			break
		}
	}
	if r.err != nil {
		return false
	}
	r.ows()
	if r.i == len(r.s) {
		return false
	}
	if !r.take(',') {
		return r.fail(ErrSyntax)
	}
	r.ows()
	if r.i == len(r.s) {
		return r.fail(ErrTrailing)
	}
	return r.member()
}

// Value returns the member that Next moved to.
func (r *Reader) Value() Value { return r.v }

// Param returns the next parameter of the member, in the order in which they
// are written; the last of equal keys is the one that counts.
func (r *Reader) Param() (key string, v Value, ok bool) {
	if r.err != nil || !r.take(';') {
		return "", Value{}, false
	}
	r.space()
	start := r.i
	for r.i < len(r.s) && isKey(r.s[r.i], r.i == start) {
		r.i++
	}
	key = r.s[start:r.i]
	if key == "" {
		return "", Value{}, r.fail(ErrSyntax)
	}
	v = Value{Kind: Boolean, Int: 1}
	if r.take('=') {
		if v = r.bare(); v.Kind == Invalid {
			return "", Value{}, r.fail(ErrSyntax)
		}
	}
	return key, v, true
}

// Pos returns how many bytes have been read.
func (r *Reader) Pos() int { return r.i }

// Err returns why the List is invalid, as far as it has been read.
func (r *Reader) Err() error { return r.err }

func (r *Reader) fail(err error) bool {
	r.err = err
	return false
}

func (r *Reader) take(c byte) bool {
	if r.i < len(r.s) && r.s[r.i] == c {
		r.i++
		return true
	}
	return false
}

func (r *Reader) space() {
	for r.i < len(r.s) && r.s[r.i] == ' ' {
		r.i++
	}
}

func (r *Reader) ows() {
	for r.i < len(r.s) && (r.s[r.i] == ' ' || r.s[r.i] == '\t') {
		r.i++
	}
}

func (r *Reader) member() bool {
	if r.i < len(r.s) && r.s[r.i] == '(' {
		return r.inner()
	}
	if r.v = r.bare(); r.v.Kind == Invalid {
		return r.fail(ErrSyntax)
	}
	return true
}

// inner checks an inner list and moves to its end.
func (r *Reader) inner() bool {
	r.i++
	for {
		r.space()
		if r.take(')') {
			r.v = Value{Kind: InnerList}
			return true
		}
		if v := r.bare(); v.Kind == Invalid {
			return r.fail(ErrSyntax)
		}
		for {
			if _, _, ok := r.Param(); !ok {
				break
			}
		}
		if r.err != nil {
			return false
		}
		if r.i == len(r.s) || r.s[r.i] != ' ' && r.s[r.i] != ')' {
			return r.fail(ErrSyntax)
		}
	}
}

// bare reads a bare item (RFC 9651 section 4.2.3.1); Invalid if there is none.
func (r *Reader) bare() Value {
	if r.i == len(r.s) {
		return Value{}
	}
	switch c := r.s[r.i]; {
	case c == '-' || isDigit(c):
		return r.number()
	case c == '"':
		return r.quoted()
	case c == '*' || isAlpha(c):
		start := r.i
		for r.i < len(r.s) && isToken(r.s[r.i]) {
			r.i++
		}
		return Value{Kind: Token, Text: r.s[start:r.i]}
	case c == ':':
		return r.bytes()
	case c == '?':
		if r.i+1 < len(r.s) && (r.s[r.i+1] == '0' || r.s[r.i+1] == '1') {
			r.i += 2
			return Value{Kind: Boolean, Int: int64(r.s[r.i-1] - '0')}
		}
	case c == '@':
		r.i++
		if v := r.number(); v.Kind == Integer {
			return Value{Kind: Date, Int: v.Int}
		}
	case c == '%':
		return r.display()
	}
	return Value{}
}

// number reads an Integer of at most 15 digits, or a Decimal of at most 12
// before and 3 behind the point.
func (r *Reader) number() Value {
	neg := r.take('-')
	start, n := r.i, int64(0)
	for ; r.i < len(r.s) && isDigit(r.s[r.i]); r.i++ {
		if r.i-start == 15 {
			return Value{}
		}
		n = n*10 + int64(r.s[r.i]-'0')
	}
	digits := r.i - start
	if digits == 0 {
		return Value{}
	}
	v := Value{Kind: Integer, Int: n}
	if r.take('.') {
		start, n = r.i, n*1000
		for unit := int64(100); r.i < len(r.s) && isDigit(r.s[r.i]); r.i++ {
			n += unit * int64(r.s[r.i]-'0')
			unit /= 10
		}
		if digits > 12 || r.i == start || r.i-start > 3 {
			return Value{}
		}
		v = Value{Kind: Decimal, Int: n}
	}
	if neg {
		v.Int = -v.Int
	}
	return v
}

// quoted reads a String. Its text is a part of the input unless it has escapes.
func (r *Reader) quoted() Value {
	r.i++
	start, escapes := r.i, 0
	for ; r.i < len(r.s); r.i++ {
		switch c := r.s[r.i]; {
		case c == '"':
			text := r.s[start:r.i]
			r.i++
			if escapes > 0 {
				text = unescape(text, escapes)
			}
			return Value{Kind: String, Text: text}
		case c == '\\':
			r.i++
			if r.i == len(r.s) || r.s[r.i] != '"' && r.s[r.i] != '\\' {
				return Value{}
			}
			escapes++
		case c < ' ' || c > '~':
			return Value{}
		}
	}
	return Value{}
}

func unescape(s string, escapes int) string {
	var b strings.Builder
	b.Grow(len(s) - escapes)
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// bytes reads a Byte Sequence and checks that it can be decoded, with or
// without padding (RFC 9651 section 4.2.7).
func (r *Reader) bytes() Value {
	r.i++
	end := strings.IndexByte(r.s[r.i:], ':')
	if end < 0 {
		return Value{}
	}
	text := r.s[r.i : r.i+end]
	r.i += end + 1
	data := strings.TrimRight(text, "=")
	if len(text)-len(data) > 2 || len(data)%4 == 1 || len(text) > len(data) && len(text)%4 != 0 {
		return Value{}
	}
	for i := 0; i < len(data); i++ {
		if c := data[i]; !isAlpha(c) && !isDigit(c) && c != '+' && c != '/' {
			return Value{}
		}
	}
	return Value{Kind: Bytes, Text: text}
}

// Decode returns the content of a Byte Sequence.
func (v Value) Decode() ([]byte, error) {
	return base64.RawStdEncoding.DecodeString(strings.TrimRight(v.Text, "="))
}

// display reads a Display String: UTF-8, percent-encoded in lower case.
func (r *Reader) display() Value {
	r.i++
	if !r.take('"') {
		return Value{}
	}
	start, escapes := r.i, 0
	for ; r.i < len(r.s); r.i++ {
		switch c := r.s[r.i]; {
		case c == '"':
			text := r.s[start:r.i]
			r.i++
			if escapes > 0 {
				text = unpercent(text, escapes)
			}
			if !utf8.ValidString(text) {
				return Value{}
			}
			return Value{Kind: DisplayString, Text: text}
		case c == '%':
			if r.i+2 >= len(r.s) || unhex(r.s[r.i+1]) < 0 || unhex(r.s[r.i+2]) < 0 {
				return Value{}
			}
			r.i += 2
			escapes++
		case c < ' ' || c > '~':
			return Value{}
		}
	}
	return Value{}
}

func unpercent(s string, escapes int) string {
	var b strings.Builder
	b.Grow(len(s) - 2*escapes)
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		b.WriteByte(byte(unhex(s[i+1])<<4 | unhex(s[i+2])))
		i += 2
	}
	return b.String()
}

func unhex(c byte) int {
	switch {
	case isDigit(c):
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	}
	return -1
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isAlpha(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func isKey(c byte, first bool) bool {
	if c >= 'a' && c <= 'z' || c == '*' {
		return true
	}
	return !first && (isDigit(c) || c == '_' || c == '-' || c == '.')
}

// isToken reports whether c is in the set of RFC 9110's tchar, or ':' or '/'.
func isToken(c byte) bool {
	return isAlpha(c) || isDigit(c) || strings.IndexByte("!#$%&'*+-.^_`|~:/", c) >= 0
}

// AppendString appends s as a String. It reports false, and appends nothing, if
// s has bytes that a String cannot hold.
func AppendString(dst []byte, s string) ([]byte, bool) {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] > '~' {
			return dst, false
		}
	}
	dst = append(dst, '"')
	for i := 0; i < len(s); i++ {
		if s[i] == '"' || s[i] == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, s[i])
	}
	return append(dst, '"'), true
}

// MaxInteger is the largest Integer.
const MaxInteger = 999_999_999_999_999

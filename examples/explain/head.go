package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
)

// A response is a head as it was sent: fields in their order, each line apart.
type response struct {
	proto  string
	status int
	reason string
	names  []string // canonical, in the order in which they first appear
	header http.Header
}

// parseHead reads the last of the heads that text begins with: curl -i prints
// those of a proxy, of 100 Continue and of redirects too.
func parseHead(text string) (*response, error) {
	var last *response
	for strings.HasPrefix(text, "HTTP/") {
		var res *response
		var err error
		if res, text, err = oneHead(text); err != nil {
			return nil, err
		}
		last = res
	}
	if last == nil {
		return nil, errors.New("no response head: the first line should be like HTTP/1.1 200 OK (curl needs -i)")
	}
	return last, nil
}

func oneHead(text string) (res *response, rest string, err error) {
	line, text, _ := strings.Cut(text, "\n")
	proto, status, _ := strings.Cut(strings.TrimSpace(line), " ")
	code, reason, _ := strings.Cut(status, " ")
	n, err := strconv.Atoi(code)
	if err != nil || n < 100 || n > 999 {
		return nil, "", fmt.Errorf("no status in the first line: %q", line)
	}
	res = &response{proto: proto, status: n, reason: reason, header: http.Header{}}
	for text != "" {
		line, text, _ = strings.Cut(text, "\n")
		if line = strings.TrimRight(line, "\r"); line == "" {
			break
		}
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, "", fmt.Errorf("no header field: %q", line)
		}
		key = textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(key))
		if res.header[key] == nil {
			res.names = append(res.names, key)
		}
		res.header[key] = append(res.header[key], strings.TrimSpace(value))
	}
	return res, text, nil
}

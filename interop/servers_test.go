package interop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-chi/httprate"
	"github.com/stretchr/testify/require"
)

// needs skips t, or fails it under COMITY_REQUIRE_SERVERS=1, unless ok.
func needs(t *testing.T, ok bool, what string) {
	t.Helper()
	if ok {
		return
	}
	if os.Getenv("COMITY_REQUIRE_SERVERS") == "1" {
		t.Fatalf("%s is required and is not here", what)
	}
	t.Skipf("%s is not here (COMITY_REQUIRE_SERVERS=1 makes this a failure)", what)
}

// child starts the program and ends it with the test: by its pid, and also if
// the test process dies, since the shell in front of it then reads the end of
// its standard input. It returns what the program prints.
func child(t *testing.T, name string, args ...string) io.Reader {
	t.Helper()
	const guard = `"$@" & pid=$!; cat >/dev/null; kill $pid 2>/dev/null; wait $pid`
	cmd := exec.Command("sh", append([]string{"-c", guard, "sh", name}, args...)...)
	var errs lockedBuffer
	cmd.Stderr = &errs
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait() // ends by our signal
		if t.Failed() {
			t.Logf("%s says: %s", name, errs.String())
		}
	})
	return out
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// startHTTPRate serves go-chi/httprate: a sliding window counter of 20 per 2 s.
func startHTTPRate(t *testing.T) string {
	t.Helper()
	limit := httprate.LimitBy(burst, 2*time.Second, httprate.Key("*"))
	srv := httptest.NewServer(limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "ok")
	})))
	t.Cleanup(srv.Close)
	return srv.URL
}

// startExpress serves express-rate-limit, a fixed window of 20 per 2 s that
// begins with the first call, and returns an address for each spelling.
func startExpress(t *testing.T) map[string]string {
	t.Helper()
	node, err := exec.LookPath("node")
	needs(t, err == nil, "node (package nodejs)")
	_, err = os.Stat(filepath.Join("express", "node_modules", "express-rate-limit"))
	needs(t, err == nil, "express-rate-limit (npm ci in interop/express)")

	line, err := bufio.NewReader(child(t, node, filepath.Join("express", "server.mjs"))).ReadBytes('\n')
	require.NoError(t, err, "no ports from express/server.mjs")
	var ports map[string]int
	require.NoError(t, json.Unmarshal(line, &ports))
	urls := make(map[string]string)
	for spelling, port := range ports {
		urls[spelling] = fmt.Sprintf("http://127.0.0.1:%d/", port)
	}
	return urls
}

const nginxConf = `
daemon off;
worker_processes 1;
pid %[1]s/nginx.pid;
error_log stderr crit;
%[2]s
events { worker_connections 256; }
http {
	access_log off;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	root %[1]s/www;
	limit_req_zone $binary_remote_addr zone=told:1m rate=10r/s;
	limit_req_zone $binary_remote_addr zone=bare:1m rate=10r/s;
	server {
		listen 127.0.0.1:%[3]d;
		location / { limit_req zone=told burst=20 nodelay; limit_req_status 429; }
	}
	server {
		listen 127.0.0.1:%[4]d;
		location / { limit_req zone=bare burst=20 nodelay; }
	}
}
`

// startNginx serves limit_req, a leaky bucket without a header, twice: one
// refuses with 429, the other with the 503 that is its default.
func startNginx(t *testing.T) (told, bare string) {
	t.Helper()
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		nginx = "/usr/sbin/nginx" // not on the path of every user
		_, err = os.Stat(nginx)
	}
	needs(t, err == nil, "nginx (package nginx-light)")

	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "www"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "www", "index.html"), []byte("ok\n"), 0o644))
	user := ""
	if os.Getuid() == 0 {
		user = "user root;" // whoever else it runs as cannot read the temporary directory
	}
	a, b := freePort(t), freePort(t)
	conf := filepath.Join(dir, "nginx.conf")
	require.NoError(t, os.WriteFile(conf, fmt.Appendf(nil, nginxConf, dir, user, a, b), 0o644))
	child(t, nginx, "-p", dir, "-c", conf)
	for _, port := range []int{a, b} {
		awaitPort(t, port)
	}
	return fmt.Sprintf("http://127.0.0.1:%d/", a), fmt.Sprintf("http://127.0.0.1:%d/", b)
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func awaitPort(t *testing.T, port int) {
	t.Helper()
	address := fmt.Sprintf("127.0.0.1:%d", port)
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
			return
		}
	}
	t.Fatalf("nothing listens on %s", address)
}

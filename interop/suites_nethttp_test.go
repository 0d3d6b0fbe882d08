package interop

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// netHTTPSuite runs the tests of the standard library's client, each in a
// process of its own with a limit of 15 s: some look inside the transport, and a
// wrapper may make them panic.
func netHTTPSuite(t *testing.T) {
	src := filepath.Join(goEnv(t, "GOROOT"), "src/net/http")
	harness := filepath.Join(src, "clientserver_test.go")
	original, err := os.ReadFile(harness)
	require.NoError(t, err)
	const line = "\tcst.tr = cst.c.Transport.(*Transport)\n"
	patched := bytes.Replace(original, []byte(line), []byte(line+"\tdefer func() { cst.c.Transport = suiteWrap(cst.tr) }()\n"), 1)
	require.NotEqual(t, original, patched, "the standard library's harness has changed")
	flag := overlay(t, map[string][]byte{
		harness:                               patched,
		filepath.Join(src, "zz_wrap_test.go"): wrapSource(t, "http_test", ""),
	})
	binary := filepath.Join(t.TempDir(), "http.test")
	build := exec.Command("go", "test", "-c", "-vet=off", flag, "-o", binary, "net/http")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))

	var names []string
	for _, file := range []string{"client_test.go", "transport_test.go", "clientserver_test.go"} {
		content, err := os.ReadFile(filepath.Join(src, file))
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(content, -1) {
			names = append(names, string(m[1]))
		}
	}
	run := func(mode string, names []string) map[string]report {
		reports := map[string]report{}
		var mu sync.Mutex
		var running sync.WaitGroup
		todo := make(chan string)
		for range 2 {
			running.Go(func() {
				for name := range todo {
					cmd := exec.Command(binary, "-test.run", "^"+name+"$", "-test.short", "-test.v", "-test.timeout", "15s")
					cmd.Dir = src
					r := test(cmd, mode)
					mu.Lock()
					reports[name] = r
					mu.Unlock()
				}
			})
		}
		for _, name := range names {
			todo <- name
		}
		close(todo)
		running.Wait()
		return reports
	}

	var through []string
	silent, unfit := 0, 0
	pass := run("pass", names)
	for _, name := range names {
		switch r := pass[name]; {
		case r.results[name] != "PASS":
			unfit++
		case r.calls == 0:
			silent++
		default:
			through = append(through, name)
		}
	}
	ours, bad := run("comity", through), run("bad", through)
	// Some of these tests have limits of milliseconds, and fail now and then on a
	// busy machine whatever they run through.
	for range 2 {
		var failed []string
		for _, name := range through {
			if len(pass[name].worse(ours[name])) > 0 {
				failed = append(failed, name)
			}
		}
		maps.Copy(ours, run("comity", failed))
	}
	caught := 0
	for _, name := range through {
		worse := pass[name].worse(ours[name])
		if why := countSends[name]; why != "" && len(worse) > 0 {
			t.Logf("%s fails: %s", name, why)
			worse = pass[name].worse(run("once", []string{name})[name])
		}
		if len(worse) > 0 {
			t.Errorf("%v pass through a wrapper that only counts and not through comity:\n%s", worse, ours[name].output)
		}
		if bad[name].results[name] != "PASS" {
			caught++
		}
	}
	t.Logf("%d tests go through the wrapper (%d make no call, %d do not pass through a wrapper that only counts); a bad one fails %d of them",
		len(through), silent, unfit, caught)
	require.NotEmpty(t, through)
	require.NotZero(t, caught, "a bad wrapper is not caught")
}

// countSends are tests that any wrapper fails which tries a GET again after a 503
// or a lost connection, as ours promises to. They have to pass if it is told not
// to.
var countSends = map[string]string{
	"TestWriteHeader0":             "its server answers 503, and panics when it is asked again",
	"TestDontCacheBrokenHTTP2Conn": "it breaks connections and counts how many are made",
}

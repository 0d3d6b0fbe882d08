package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Suites that others wrote for transports, run through ours: whatever passes
// through a wrapper that only counts passes through the Transport, and a wrapper
// with faults is caught, or the suite would prove nothing.
//
// They build the standard library's tests, so they run with COMITY_LONG=1 only.
func TestSuitesOfOthers(t *testing.T) {
	if os.Getenv("COMITY_LONG") != "1" {
		t.Skip("skipped: COMITY_LONG=1 runs it, for a few minutes")
	}
	t.Run("httputil", func(t *testing.T) { wholeSuite(t, httputilSuite(t)) })
	t.Run("nethttp", netHTTPSuite)
	t.Run("otelhttp", func(t *testing.T) { wholeSuite(t, otelSuite(t)) })
	t.Run("go-retryablehttp", func(t *testing.T) { wholeSuite(t, retryableSuite(t)) })
}

// A suite runs the tests of somebody else through the wrapper of a mode.
type suite func(mode string) report

// report is what a suite printed.
type report struct {
	results        map[string]string // PASS, FAIL or SKIP by test
	calls, retries int               // at least
	output         string
}

func (r report) count(result string) (n int) {
	for _, got := range r.results {
		if got == result {
			n++
		}
	}
	return n
}

// worse lists the tests that pass in r and not in other.
func (r report) worse(other report) (names []string) {
	for name, result := range r.results {
		if result == "PASS" && other.results[name] != "PASS" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func wholeSuite(t *testing.T, run suite) {
	pass, ours, bad := run("pass"), run("comity"), run("bad")
	t.Logf("%d tests pass through a wrapper that only counts, %d through comity, %d through a bad one; %d calls, %d retries by comity",
		pass.count("PASS"), ours.count("PASS"), bad.count("PASS"), ours.calls, ours.retries)
	require.Positive(t, pass.count("PASS"), pass.output)
	require.Positive(t, ours.calls, "no call goes through the wrapper")
	require.Empty(t, pass.worse(ours), ours.output)
	require.NotEmpty(t, pass.worse(bad), "a bad wrapper is not caught")
}

var (
	resultLine = regexp.MustCompile(`(?m)^ *--- (PASS|FAIL|SKIP): (\S+) `)
	tellLine   = regexp.MustCompile(`(?m)^SUITE (calls|retries) (\d+)$`)
)

// test runs a command that prints as go test -v does.
func test(cmd *exec.Cmd, mode string, env ...string) report {
	cmd.Env = append(append(os.Environ(), "COMITY_SUITE="+mode), env...)
	out, _ := cmd.CombinedOutput()
	r := report{results: map[string]string{}, output: string(out)}
	for _, m := range resultLine.FindAllStringSubmatch(r.output, -1) {
		r.results[m[2]] = m[1]
	}
	for _, m := range tellLine.FindAllStringSubmatch(r.output, -1) {
		n, _ := strconv.Atoi(m[2])
		if m[1] == "calls" {
			r.calls = max(r.calls, n)
		} else {
			r.retries = max(r.retries, n)
		}
	}
	return r
}

// wrapSource returns the wrapper as a file of a package, with what it begins by.
func wrapSource(t *testing.T, pkg, extra string) []byte {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("testdata", "suites", "wrap.go.txt"))
	require.NoError(t, err)
	return append(bytes.Replace(src, []byte("PACKAGE"), []byte(pkg), 1), "\n"+extra...)
}

// throughDefault makes all of a package's tests use the wrapper.
const throughDefault = "func init() { http.DefaultTransport = suiteWrap(http.DefaultTransport) }\n"

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// overlay writes files that stand in for those of the standard library and
// returns the flag that says so. Imports of an overlaid file are resolved in this
// module.
func overlay(t *testing.T, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	replace := map[string]string{}
	for path, content := range files {
		at := filepath.Join(dir, fmt.Sprintf("%d_test.go", len(replace)))
		require.NoError(t, os.WriteFile(at, content, 0o644))
		replace[path] = at
	}
	spec, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	at := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(at, spec, 0o644))
	return "-overlay=" + at
}

// httputilSuite is that of the standard library's ReverseProxy.
func httputilSuite(t *testing.T) suite {
	flag := overlay(t, map[string][]byte{
		filepath.Join(goEnv(t, "GOROOT"), "src/net/http/httputil/zz_wrap_test.go"): wrapSource(t, "httputil", throughDefault),
	})
	return func(mode string) report {
		return test(exec.Command("go", "test", "-count=1", "-vet=off", flag, "-short", "-v", "net/http/httputil"), mode)
	}
}

// copyModule copies module@version out of the module cache into a folder of its
// own, with this project as a further requirement.
func copyModule(t *testing.T, module, version string) string {
	t.Helper()
	out, err := exec.Command("go", "mod", "download", "-json", module+"@"+version).Output()
	require.NoError(t, err, string(out))
	var at struct{ Dir string }
	require.NoError(t, json.Unmarshal(out, &at))
	dir := filepath.Join(t.TempDir(), "module")
	require.NoError(t, os.CopyFS(dir, os.DirFS(at.Dir)))
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	modEdit(t, dir, "-require=github.com/comity/comity@v0.0.0", "-replace=github.com/comity/comity="+root)
	return dir
}

func modEdit(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"mod", "edit"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}

// otelSuite is that of otelhttp, which wraps http.DefaultTransport.
func otelSuite(t *testing.T) suite {
	dir := copyModule(t, "go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp", "v0.72.0")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "zz_wrap_test.go"), wrapSource(t, "otelhttp", throughDefault), 0o644))
	return func(mode string) report { return moduleTest(dir, mode) }
}

func moduleTest(dir, mode string) report {
	cmd := exec.Command("go", "test", "-count=1", "-vet=off", "-v", ".")
	cmd.Dir = dir
	return test(cmd, mode, "GOFLAGS=-mod=mod", "GOWORK=off")
}

// retryableSuite is that of go-retryablehttp, which has its transports made by
// go-cleanhttp.
func retryableSuite(t *testing.T) suite {
	dir := copyModule(t, "github.com/hashicorp/go-retryablehttp", "v0.7.8")
	clean := copyModule(t, "github.com/hashicorp/go-cleanhttp", "v0.5.2")
	at := filepath.Join(clean, "cleanhttp.go")
	src, err := os.ReadFile(at)
	require.NoError(t, err)
	wrapped := bytes.Replace(src, []byte("Transport: DefaultPooledTransport()"), []byte("Transport: suiteWrap(DefaultPooledTransport())"), 1)
	require.NotEqual(t, src, wrapped)
	require.NoError(t, os.WriteFile(at, wrapped, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(clean, "zz_wrap.go"), wrapSource(t, "cleanhttp", ""), 0o644))
	modEdit(t, dir, "-replace=github.com/hashicorp/go-cleanhttp="+clean)
	return func(mode string) report { return moduleTest(dir, mode) }
}

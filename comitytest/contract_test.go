package comitytest_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/comity/comity/comitytest"
)

func TestBareTransportKeepsTheContract(t *testing.T) {
	comitytest.TestRoundTripper(t, func(base http.RoundTripper) http.RoundTripper { return base })
}

func TestReferenceRetrierKeepsTheContract(t *testing.T) {
	comitytest.TestRoundTripper(t, func(base http.RoundTripper) http.RoundTripper { return &retrier{base: base} })
}

// flaws lists every wrapper that breaks a clause.
func flaws() []flaw {
	return slices.Concat(requestFlaws, responseFlaws, errorFlaws)
}

// inChild is set in the process that runs a flawed wrapper, where tests fail.
const inChild = "COMITYTEST_FLAWED"

// TestFlawedWrapper has failing subtests, for TestEachClauseCatchesItsFlaw.
func TestFlawedWrapper(t *testing.T) {
	if os.Getenv(inChild) == "" {
		t.Skip("skipped: run by TestEachClauseCatchesItsFlaw, in a process of its own")
	}
	for i, f := range flaws() {
		t.Run(strconv.Itoa(i), func(t *testing.T) { comitytest.TestRoundTripper(t, f.wrap) })
	}
}

// A clause that no wrapper can break proves nothing: each has one that does.
func TestEachClauseCatchesItsFlaw(t *testing.T) {
	for i, f := range flaws() {
		t.Run(f.clause+" "+f.name, func(t *testing.T) {
			t.Parallel()
			run := fmt.Sprintf("^TestFlawedWrapper$/^%d$/^%s_", i, f.clause)
			if strings.Contains(f.clause, "_") {
				run = strings.TrimSuffix(run, "_")
			}
			cmd := exec.Command(os.Args[0], "-test.run", run, "-test.v", "-test.failfast", "-test.timeout", "60s")
			cmd.Env = append(os.Environ(), inChild+"=1")
			out, err := cmd.CombinedOutput()
			failed := fmt.Sprintf("--- FAIL: TestFlawedWrapper/%d/%s_", i, strings.TrimSuffix(f.clause, "_"))
			crashed := strings.Contains(string(out), "fatal error: concurrent map") // the runtime may see a race first
			if err == nil || !crashed && !strings.Contains(string(out), failed) {
				t.Errorf("the clause was kept, or the process ended otherwise: %v\n%s", err, out)
			}
		})
	}
	for _, name := range comitytest.ClauseNames() {
		id, _, _ := strings.Cut(name, "_")
		if !slices.ContainsFunc(flaws(), func(f flaw) bool { return strings.HasPrefix(f.clause+"_", id+"_") }) {
			t.Errorf("nothing breaks %s", name)
		}
	}
}

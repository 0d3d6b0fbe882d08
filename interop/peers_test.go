package interop

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/comity/comity"
	"github.com/comity/comity/comitytest"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/stretchr/testify/require"
)

// A peer is a round tripper that is held to the contract: those of other projects
// that try again, set up as their README shows, between net/http and ours.
type peer struct {
	name   string
	module string
	wrap   func(http.RoundTripper) http.RoundTripper
}

var peers = []peer{
	{"net/http alone", "", func(base http.RoundTripper) http.RoundTripper { return base }},
	{"comity", "", func(base http.RoundTripper) http.RoundTripper {
		rt, err := comity.New(base, comity.Config{})
		if err != nil {
			panic(err)
		}
		return rt
	}},
	{"go-retryablehttp", "github.com/hashicorp/go-retryablehttp", func(base http.RoundTripper) http.RoundTripper {
		c := retryablehttp.NewClient()
		c.HTTPClient.Transport = base
		c.RetryMax = 2
		c.Logger = nil
		return &retryablehttp.RoundTripper{Client: c}
	}},
	{"failsafehttp", "github.com/failsafe-go/failsafe-go", func(base http.RoundTripper) http.RoundTripper {
		policy := failsafehttp.NewRetryPolicyBuilder().WithMaxRetries(2).
			WithBackoff(time.Second, 30*time.Second).Build()
		return failsafehttp.NewRoundTripper(base, policy)
	}},
}

const (
	peerEnv   = "COMITY_PEER"         // in the process that runs one peer, where tests fail
	updateEnv = "COMITY_UPDATE_PEERS" // writes the table anew
)

// TestPeerKeepsTheContract has failing subtests, for TestContractOfPeers.
func TestPeerKeepsTheContract(t *testing.T) {
	name := os.Getenv(peerEnv)
	if name == "" {
		t.Skip("skipped: run by TestContractOfPeers, in a process of its own")
	}
	for _, p := range peers {
		if p.name == name {
			comitytest.TestRoundTripper(t, p.wrap)
		}
	}
}

// TestContractOfPeers holds the table of clauses that peers break, as the README
// shows it, to what they do.
func TestContractOfPeers(t *testing.T) {
	var clauses []string
	results := map[string]map[string]string{}
	head, rule := "| clause |", "|---|"
	lines := make([][][]string, len(peers))
	var running sync.WaitGroup
	for i, p := range peers {
		running.Go(func() { lines[i] = runPeer(t, p.name) })
	}
	running.Wait()
	for i, p := range peers {
		results[p.name] = map[string]string{}
		for _, line := range lines[i] {
			if i == 0 {
				clauses = append(clauses, line[2])
			}
			results[p.name][line[2]] = line[1]
		}
		head += " " + strings.TrimSpace(p.name+" "+version(p.module)) + " |"
		rule += "---|"
	}
	var table bytes.Buffer
	fmt.Fprintf(&table, "%s\n%s\n", head, rule)
	broken := make([]int, len(peers))
	for _, clause := range clauses {
		row, differs := "| "+strings.ReplaceAll(clause, "_", " ")+" |", false
		for i, p := range peers {
			result := map[string]string{"PASS": "kept", "SKIP": "-", "FAIL": "**broken**", "": "?"}[results[p.name][clause]]
			if results[p.name][clause] == "FAIL" {
				broken[i]++
				differs = true
			}
			row += " " + result + " |"
		}
		if differs {
			fmt.Fprintln(&table, row)
		}
	}
	fmt.Fprintf(&table, "| broken, of %d |", len(clauses))
	for _, n := range broken {
		fmt.Fprintf(&table, " %d |", n)
	}
	fmt.Fprintln(&table)
	t.Logf("\n%s", table.String())

	golden := filepath.Join("testdata", "peers.md")
	if os.Getenv(updateEnv) != "" {
		require.NoError(t, os.WriteFile(golden, table.Bytes(), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), table.String(), "%s=1 writes the table anew", updateEnv)
}

var clauseLine = regexp.MustCompile(`--- (PASS|FAIL|SKIP): TestPeerKeepsTheContract/([A-Z][0-9]+_[A-Za-z0-9_]+) `)

// runPeer runs the contract over the peer in a process of its own and returns
// the result and the name of each clause.
func runPeer(t *testing.T, name string) [][]string {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestPeerKeepsTheContract$", "-test.v", "-test.timeout", "120s")
	cmd.Env = append(os.Environ(), peerEnv+"="+name)
	cmd.Stderr = io.Discard
	out, _ := cmd.Output()
	lines := clauseLine.FindAllStringSubmatch(string(out), -1)
	if len(lines) == 0 {
		t.Errorf("%s: no clause was run:\n%s", name, out)
	}
	return lines
}

// version returns the version of module that go.mod asks for.
func version(module string) string {
	if module == "" {
		return ""
	}
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", module).Output()
	if err != nil {
		return "?"
	}
	return strings.TrimSpace(string(out))
}

package comity_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each Go block of the README stands, line for line, in a file that is compiled:
// a test of this folder or of interop, or an example. So no block can fail to build.
func TestReadmeShowsOnlyCodeThatBuilds(t *testing.T) {
	var sources []string
	for _, pattern := range []string{"*_test.go", "examples/*/*.go", "interop/*_test.go"} {
		names, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, name := range names {
			sources = append(sources, trimLines(read(t, name)))
		}
	}
	blocks := goBlocks(read(t, "README.md"))
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		found := false
		for _, source := range sources {
			found = found || strings.Contains(source, trimLines(block))
		}
		if !found {
			t.Errorf("in no file that is compiled:\n%s", block)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(text)
}

// goBlocks returns the fenced blocks of text that are marked as Go.
func goBlocks(text string) []string {
	var blocks []string
	for _, part := range strings.Split(text, "\n```go\n")[1:] {
		block, _, _ := strings.Cut(part, "\n```")
		blocks = append(blocks, block)
	}
	return blocks
}

// trimLines returns text without the indentation of its lines.
func trimLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimSpace(line))
		b.WriteByte('\n')
	}
	return b.String()
}

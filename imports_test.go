package comity_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/comity/comity"

// A layer is what the packages of a folder may import of this project and of
// others; the standard library is free to all.
type layer struct {
	own    []string // packages of this project, relative to the module; a trailing slash is a whole tree
	others []string // modules of others
	tests  []string // further packages of this project that tests may import
}

var (
	support = []string{".", "internal/", "egress", "comitytest", "statusz", "fleet"}
	card    = []string{"golang.org/x/time", "github.com/cenkalti/backoff/v4"}
)

// layers maps each folder of the root module to its layer. A tree that is not
// listed takes that of the nearest folder above it.
var layers = map[string]layer{
	".":               {own: []string{"internal/"}, others: card, tests: []string{".", "comitytest"}},
	"internal/limit":  {others: card[:1]},
	"internal/sf":     {},
	"internal/window": {},
	"egress":          {own: []string{".", "internal/window"}, tests: []string{"comitytest", "examples/internal/"}},
	"comitytest":      {own: []string{".", "internal/limit", "internal/limit/exact", "internal/sf"}},
	"statusz":         {own: []string{"."}, tests: []string{"comitytest"}},
	"fleet":           {own: []string{"."}, tests: []string{"comitytest"}},
	"examples":        {own: []string{".", "egress", "comitytest", "statusz", "fleet"}, others: card},
}

// Dependencies point down only: a package that reached up, or one module more,
// would be had by everyone who imports comity.
func TestImportsPointDown(t *testing.T) {
	for dir, nested := range packages(t) {
		for _, file := range files(t, dir) {
			test := strings.HasSuffix(file, "_test.go")
			for _, imported := range imports(t, file) {
				if !allowed(dir, imported, test, nested) {
					t.Errorf("%s imports %s", file, imported)
				}
			}
		}
	}
}

func TestImportRulesKnowUpFromDown(t *testing.T) {
	for _, c := range []struct {
		dir, imported string
		test, nested  bool
		want          bool
	}{
		{".", "net/http", false, false, true},
		{".", "golang.org/x/time/rate", false, false, true},
		{".", "golang.org/x/net/http2", false, false, false},
		{".", module + "/internal/limit", false, false, true},
		{".", module + "/egress", false, false, false},
		{".", module + "/comitytest", false, false, false},
		{".", module + "/comitytest", true, false, true},
		{".", "github.com/stretchr/testify/require", false, false, false},
		{".", "github.com/stretchr/testify/require", true, false, true},
		{"internal/limit", module, false, false, false},
		{"internal/sf", "golang.org/x/time/rate", false, false, false},
		{"egress", module, false, false, true},
		{"egress", module + "/statusz", false, false, false},
		{"comitytest", module + "/egress", true, false, false},
		{"examples/quickstart", module + "/comitytest", false, false, true},
		{"examples/quickstart", "github.com/gocolly/colly/v2", false, false, false},
		{"examples/crawler", "github.com/gocolly/colly/v2", false, true, true},
		{"interop", module + "/internal/limit", false, true, false},
		{"interop", module + "/examples/quickstart", false, true, false},
		{"interop", module + "/examples/crawler/site", false, true, false},
		{"interop", module + "/examples/crawler/site", true, true, true},
	} {
		require.Equal(t, c.want, allowed(c.dir, c.imported, c.test, c.nested), "%+v", c)
	}
}

func allowed(dir, imported string, test, nested bool) bool {
	if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
		return true // standard library
	}
	own, ours := ".", imported == module
	if rest, ok := strings.CutPrefix(imported, module+"/"); ok {
		own, ours = rest, true
	}
	if nested {
		inside := own == dir || strings.HasPrefix(own, dir+"/")
		tried := test && dir == "interop" && strings.HasPrefix(own, "examples/crawler/") // a web for crawlers of others
		return !ours || inside || tried || in(support, own) && (test || !strings.HasPrefix(own, "internal/"))
	}
	l := layerOf(dir)
	if ours {
		inside := dir != "." && strings.HasPrefix(own, dir+"/")
		return inside || in(l.own, own) || test && (own == dir || in(l.tests, own))
	}
	return in(slashed(l.others), imported+"/") || test && strings.HasPrefix(imported, "github.com/stretchr/testify/require")
}

// in reports whether list has name, or a tree that name is in.
func in(list []string, name string) bool {
	return slices.ContainsFunc(list, func(entry string) bool {
		return entry == name || strings.HasSuffix(entry, "/") && strings.HasPrefix(name, entry)
	})
}

func slashed(list []string) []string {
	trees := make([]string, len(list))
	for i, entry := range list {
		trees[i] = entry + "/"
	}
	return trees
}

func layerOf(dir string) layer {
	for d := dir; ; d = path.Dir(d) {
		if l, ok := layers[d]; ok {
			return l
		}
	}
}

// packages returns every folder with Go files, and whether it belongs to a
// nested module.
func packages(t *testing.T) map[string]bool {
	t.Helper()
	found := make(map[string]bool)
	var nested []string
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if entry.IsDir() {
			if name != "." && (entry.Name() == "node_modules" || entry.Name() == "testdata" || strings.ContainsAny(entry.Name()[:1], "._")) {
				return fs.SkipDir
			}
			if _, err := os.Stat(filepath.Join(name, "go.mod")); name != "." && err == nil {
				nested = append(nested, name+"/")
			}
			return nil
		}
		if strings.HasSuffix(name, ".go") {
			found[path.Dir(name)] = in(nested, path.Dir(name)+"/")
		}
		return nil
	})
	require.NoError(t, err)
	return found
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	return names
}

func imports(t *testing.T, file string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	require.NoError(t, err)
	var list []string
	for _, spec := range f.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		require.NoError(t, err)
		list = append(list, imported)
	}
	return list
}

package comity_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// go doc is the manual, so every name that it shows has to be in it.
func TestExportedNamesAreDocumented(t *testing.T) {
	for dir, nested := range packages(t) {
		if nested || strings.HasPrefix(dir, "examples") {
			continue
		}
		for _, file := range files(t, dir) {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
			require.NoError(t, err)
			for _, decl := range f.Decls {
				for _, name := range undocumented(decl) {
					t.Errorf("%s: %s has no doc comment", file, name)
				}
			}
		}
	}
}

// undocumented returns the exported names of decl that no comment is about.
func undocumented(decl ast.Decl) []string {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && d.Name.IsExported() && (d.Recv == nil || exportedReceiver(d.Recv) && !obvious[d.Name.Name]) {
			return []string{d.Name.Name}
		}
	case *ast.GenDecl:
		var names []string
		for _, spec := range d.Specs {
			names = append(names, undocumentedSpec(spec, d.Doc != nil)...)
		}
		return names
	}
	return nil
}

// obvious are methods whose interface of the standard library is their doc.
var obvious = map[string]bool{"String": true, "Error": true, "Is": true, "Unwrap": true, "MarshalText": true, "UnmarshalText": true, "ServeHTTP": true, "RoundTrip": true}

func undocumentedSpec(spec ast.Spec, group bool) []string {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() && s.Doc == nil && !group {
			return []string{s.Name.Name}
		}
	case *ast.ValueSpec:
		if s.Doc != nil || s.Comment != nil || group {
			return nil
		}
		var names []string
		for _, name := range s.Names {
			// An enumeration is documented by its type.
			if name.IsExported() && s.Type == nil && len(s.Values) > 0 {
				names = append(names, name.Name)
			}
		}
		return names
	}
	return nil
}

func exportedReceiver(recv *ast.FieldList) bool {
	typ := recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	id, ok := typ.(*ast.Ident)
	return ok && id.IsExported()
}

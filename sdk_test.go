package eider_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docs/sdk.md has a table for each configuration: a row for each field, in order, with the default that its
// documentation states.
func TestHouseSDKPageHasEveryField(t *testing.T) {
	page := read(t, "docs/sdk.md")
	states := regexp.MustCompile(`0 means (?:EIDER_GRACE \(as in "45s"\), else )?([0-9][0-9.]*(?:s|ms)?)\b`)
	for _, c := range []struct{ title, file, name string }{
		{"registry.Config", "registry/registry.go", "Config"}, {"drain.Config", "drain/config.go", "Config"},
		{"eiderhttp.Transport", "eiderhttp/transport.go", "Transport"}, {"eidergrpc.Config", "eidergrpc/client.go", "Config"}, {"roster.Config", "roster/roster.go", "Config"},
		{"eiderhttp.Guard", "eiderhttp/guard.go", "Guard"}, {"eidergrpc.Guard", "eidergrpc/guard.go", "Guard"},
	} {
		_, section, _ := strings.Cut(page, "\n## "+c.title+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		rows := regexp.MustCompile("(?m)^\\| `([A-Z][A-Za-z]*)` \\| (.*)$").FindAllStringSubmatch(section, -1)
		stated, i := 0, 0
		for _, f := range fields(t, c.file, c.name) {
			if i >= len(rows) || rows[i][1] != f.name {
				t.Fatalf("row %d of %s isn't %s, or there is none", i+1, c.title, f.name)
			}
			if def := states.FindStringSubmatch(f.doc); def != nil {
				stated++
				if !slices.Contains(strings.FieldsFunc(rows[i][2], func(r rune) bool { return strings.ContainsRune(" ,|;`", r) }), strings.TrimSuffix(def[1], ".")) {
					t.Errorf("%s.%s: its default is %s, and the page says %s", c.title, f.name, def[1], rows[i][2])
				}
			}
			i++
		}
		if i != len(rows) {
			t.Errorf("%s has %d fields, and the page %d", c.title, i, len(rows))
		}
		if least := map[string]int{"drain.Config": 6, "eiderhttp.Transport": 6, "eidergrpc.Config": 5}[c.title]; stated < least {
			t.Errorf("only %d defaults of %s were found in its documentation", stated, c.title)
		}
	}
}

type field struct{ name, doc string }

// fields returns the exported fields of a struct with what is said of each.
func fields(t *testing.T, file, name string) (out []field) {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != name {
			return true
		}
		for _, f := range spec.Type.(*ast.StructType).Fields.List {
			for _, id := range f.Names {
				if id.IsExported() {
					doc := strings.Join(strings.Fields(f.Doc.Text()+" "+f.Comment.Text()), " ")
					out = append(out, field{id.Name, doc})
				}
			}
		}
		return false
	})
	return out
}

// Every variable that the SDK reads is on the page, and no other is in its table.
func TestHouseSDKPageHasEveryVariable(t *testing.T) {
	var is, said []string
	for _, folder := range []string{"registry", "roster", "drain", "eiderhttp", "eidergrpc", "balance", "retry", "window"} {
		for _, name := range glob(t, folder, ".go") {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			for _, found := range regexp.MustCompile(`os\.Getenv\("(\w+)"\)`).FindAllStringSubmatch(read(t, name), -1) {
				is = append(is, found[1])
			}
		}
	}
	for _, found := range regexp.MustCompile("(?m)^\\| `(EIDER_[A-Z_]+)` \\|").FindAllStringSubmatch(read(t, "docs/sdk.md"), -1) {
		said = append(said, found[1])
	}
	slices.Sort(is)
	slices.Sort(said)
	if is = slices.Compact(is); !slices.Equal(is, said) || len(is) < 3 {
		t.Errorf("the SDK reads %v, the page has %v", is, said)
	}
}

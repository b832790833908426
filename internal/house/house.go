// Package house holds a module's code to the rules of the house: who may import whom, how long a
// function may be, what may stand at package level. Only tests import it.
package house

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Budgets of the house; an exception is a row in the module's TestHouse with its reason.
const (
	MaxFunction = 60
	MaxFile     = 400
)

// Rules is what TestHouse of a module asks for.
type Rules struct {
	Module     string            // the module's path
	Exceptions map[string]string // "room/file.go" or "room/file.go:function" or "room/file.go:var name" to the reason
}

// Check returns every broken rule below the folder, each as one line, ordered.
func (r Rules) Check(folder string) ([]string, error) {
	files, err := parse(folder)
	if err != nil {
		return nil, err
	}
	arrows, err := readArrows(filepath.Join(folder, "imports.txt"))
	if err != nil {
		return nil, err
	}
	var broken []string
	used := map[string]bool{}
	report := func(where, format string, args ...any) {
		if _, ok := r.Exceptions[where]; ok {
			used[where] = true
			return
		}
		broken = append(broken, where+": "+fmt.Sprintf(format, args...))
	}
	rooms := map[string]bool{}
	for _, f := range files {
		rooms[f.room] = true
		r.checkImports(f, arrows, report)
		checkBudgets(f, report)
		checkTop(f, report)
		checkSleep(f, report)
	}
	for room := range arrows {
		if !rooms[room] && room != "tests" {
			report("imports.txt", "names the room %s, which isn't there", room)
		}
	}
	for where, reason := range r.Exceptions {
		if !used[where] {
			broken = append(broken, where+": the exception is no longer needed ("+reason+")")
		}
	}
	slices.Sort(broken)
	return broken, nil
}

type file struct {
	room string // folder below the module, "." for the top
	path string // file below the module
	test bool
	set  *token.FileSet
	ast  *ast.File
}

func (f *file) line(p token.Pos) int { return f.set.Position(p).Line }

func parse(folder string) ([]*file, error) {
	var out []*file
	err := filepath.WalkDir(folder, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(folder, p)
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			_, errMod := os.Stat(filepath.Join(p, "go.mod"))
			if rel != "." && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") || errMod == nil) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, ".pb.go") {
			return nil
		}
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, p, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		out = append(out, &file{path.Dir(rel), rel, strings.HasSuffix(rel, "_test.go"), set, tree})
		return nil
	})
	return out, err
}

// readArrows reads lines like "registry <- . api/eider/v1 google.golang.org/grpc/..."; "tests" lists what
// test files of every room may import besides.
func readArrows(name string) (map[string][]string, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := map[string][]string{}
	for s := bufio.NewScanner(f); s.Scan(); {
		line, _, _ := strings.Cut(s.Text(), "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		room, imports, ok := strings.Cut(line, "<-")
		if !ok {
			return nil, fmt.Errorf("%s: line %q has no arrow <-", name, line)
		}
		out[strings.TrimSpace(room)] = strings.Fields(imports)
	}
	return out, nil
}

func (r Rules) checkImports(f *file, arrows map[string][]string, report func(string, string, ...any)) {
	allowed, known := arrows[f.room]
	if !known {
		report(f.path, "the room %s has no line in imports.txt", f.room)
		return
	}
	for _, spec := range f.ast.Imports {
		name, _ := strconv.Unquote(spec.Path.Value)
		first, _, _ := strings.Cut(name, "/")
		if !strings.Contains(first, ".") {
			continue // the standard library
		}
		short := name
		if name == r.Module {
			short = "."
		} else if rest, ok := strings.CutPrefix(name, r.Module+"/"); ok {
			short = rest
		}
		if matches(allowed, short) || f.test && (short == f.room || matches(arrows["tests"], short)) {
			continue
		}
		report(f.path, "%s imports %s, which no arrow in imports.txt allows", f.room, short)
	}
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		if prefix, ok := strings.CutSuffix(p, "/..."); ok {
			return name == prefix || strings.HasPrefix(name, prefix+"/")
		}
		return p == name
	})
}

func checkBudgets(f *file, report func(string, string, ...any)) {
	if lines := f.set.File(f.ast.FileStart).LineCount(); lines > MaxFile {
		report(f.path, "%d lines, at most %d", lines, MaxFile)
	}
	for _, decl := range f.ast.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		if lines := f.line(fn.End()) - f.line(fn.Pos()) + 1; lines > MaxFunction {
			report(f.path+":"+fn.Name.Name, "%d lines, at most %d", lines, MaxFunction)
		}
		if fn.Name.Name == "init" && fn.Recv == nil {
			report(f.path+":init", "no init: wiring is plain code")
		}
	}
}

// checkTop allows at package level: sentinels (errors.New and the like), tables and sets that nobody
// writes (composite literals, regexps), embeds, and interface checks (var _ X = …).
func checkTop(f *file, report func(string, string, ...any)) {
	for _, banned := range []string{"util", "utils", "common", "pkg", "types", "manager", "impl", "helpers"} {
		if f.ast.Name.Name == banned {
			report(f.path, "no package is called %s: say what it is for", banned)
		}
	}
	if f.test {
		return
	}
	for _, decl := range f.ast.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.VAR {
			continue
		}
		for _, spec := range gen.Specs {
			v := spec.(*ast.ValueSpec)
			if embedded(gen, v) {
				continue
			}
			for i, name := range v.Names {
				if name.Name != "_" && (i >= len(v.Values) || !constant(v.Values[i])) {
					report(f.path+":var "+name.Name, "package variables are sentinels, tables and embeds")
				}
			}
		}
	}
}

func embedded(gen *ast.GenDecl, v *ast.ValueSpec) bool {
	for _, doc := range []*ast.CommentGroup{gen.Doc, v.Doc} {
		if doc == nil {
			continue
		}
		for _, c := range doc.List {
			if strings.HasPrefix(c.Text, "//go:embed") {
				return true
			}
		}
	}
	return false
}

func constant(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.CompositeLit:
		return true
	case *ast.UnaryExpr:
		return e.Op == token.AND && constant(e.X)
	case *ast.CallExpr:
		if sel, ok := e.Fun.(*ast.SelectorExpr); ok {
			switch sel.Sel.Name {
			case "New", "Errorf", "MustCompile", "NewReplacer", "MustParsePrefix":
				return true
			}
		}
	}
	return false
}

// checkSleep forbids time.Sleep outside a synctest bubble: a sleep hides a race or wastes time.
// Code under test may wait in other ways; a bubble is a function literal given to synctest.Test, or a
// function whose name ends in Bubble.
func checkSleep(f *file, report func(string, string, ...any)) {
	var bubbles []ast.Node
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if strings.HasSuffix(n.Name.Name, "Bubble") {
				bubbles = append(bubbles, n)
			}
		case *ast.CallExpr:
			if selector(n.Fun, "synctest", "Test") {
				bubbles = append(bubbles, n)
			}
		}
		return true
	})
	ast.Inspect(f.ast, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || !selector(call.Fun, "time", "Sleep") {
			return true
		}
		inside := slices.ContainsFunc(bubbles, func(b ast.Node) bool { return b.Pos() <= call.Pos() && call.End() <= b.End() })
		if !inside {
			report(f.path+":Sleep", "line %d: no time.Sleep outside a synctest bubble", f.line(call.Pos()))
		}
		return true
	})
}

func selector(e ast.Expr, pkg, name string) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == pkg
}

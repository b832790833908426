package offline

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/eiderhq/eider/server/internal/lint"
)

// gather reads what was named; what can't be read is a fault, and the rest is linted.
func gather(names []string, stdin io.Reader) (sources []lint.Source, faults []lint.Fault) {
	fail := func(name string, err error) {
		if pe, ok := errors.AsType[*fs.PathError](err); ok {
			err = pe.Err // the name stands before it already
		}
		if strings.Contains(err.Error(), "escapes from parent") {
			err = errors.New("it is a link that leads out of the folder; name what it leads to")
		}
		faults = append(faults, lint.Fault{File: name, Message: "can't be read: " + err.Error()})
	}
	take := func(name string, r io.Reader) {
		text, err := io.ReadAll(io.LimitReader(r, lint.MaxText+1))
		if err != nil {
			fail(name, err)
			return
		}
		sources = append(sources, lint.Source{Name: name, Text: text})
	}
	for _, name := range names {
		info, err := os.Stat(name)
		switch {
		case name == "-":
			take("stdin", stdin)
		case err != nil:
			fail(name, err)
		case info.IsDir():
			gatherFolder(name, take, fail)
		default:
			f, err := os.Open(name)
			if err != nil {
				fail(name, err)
				continue
			}
			take(name, f)
			f.Close()
		}
	}
	return sources, faults
}

// gatherFolder reads the manifests of a folder and those below it. A link is read if it leads to a file within; nothing
// outside of the folder is, whatever is linked, and one that leads there is a fault: who counts on it learns that.
func gatherFolder(folder string, take func(string, io.Reader), fail func(string, error)) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		fail(folder, err)
		return
	}
	defer root.Close()
	seen := 0
	_ = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		full := filepath.Join(folder, filepath.FromSlash(name))
		hidden := name != "." && strings.HasPrefix(d.Name(), ".")
		switch {
		case err != nil:
			fail(full, err)
			seen++
			return nil
		case d.IsDir() && hidden:
			return fs.SkipDir
		case d.IsDir() || hidden && d.Type()&fs.ModeSymlink != 0 || !manifest(full, d):
			return nil
		}
		seen++
		info, err := root.Stat(name)
		if err == nil && info.IsDir() {
			return nil // a link to a folder within, which is read where it is
		}
		if err == nil && !info.Mode().IsRegular() {
			err = errors.New("it is no file")
		}
		if err != nil {
			fail(full, err)
			return nil
		}
		f, err := root.Open(name)
		if err != nil {
			fail(full, err)
			return nil
		}
		defer f.Close()
		take(full, f)
		return nil
	})
	if seen == 0 {
		fail(folder, errors.New("no *.yaml, *.yml or *.json is in it"))
	}
}

// manifest tells by its name whether a file of a folder is one; a link to a folder may hold some.
func manifest(full string, d fs.DirEntry) bool {
	if slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(full))) {
		return true
	}
	if d.Type()&fs.ModeSymlink == 0 {
		return false
	}
	info, err := os.Stat(full)
	return err == nil && info.IsDir()
}

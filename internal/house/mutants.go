package house

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// hunk is one place that a patch changes.
type hunk struct {
	file, old  string // old is what it wants to find there, by whole lines
	begin, end bool   // … and nothing before it; nothing after it
}

// Mutants returns a line for every testdata/mutants/*.patch below the folder that git wouldn't apply to the code as it is.
// Asking git takes a process a patch; this takes a look at each file.
func Mutants(folder string) ([]string, error) {
	var broken []string
	texts := map[string]string{}
	err := filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case filepath.Ext(name) != ".patch" || filepath.Base(filepath.Dir(name)) != "mutants":
			return nil
		}
		patch, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		hunks := hunksOf(string(patch))
		if len(hunks) == 0 {
			broken = append(broken, name+": changes nothing")
		}
		for _, h := range hunks {
			text, ok := texts[h.file]
			if !ok {
				content, err := os.ReadFile(filepath.Join(folder, h.file))
				if err != nil {
					broken = append(broken, fmt.Sprintf("%s: %v", name, err))
					break
				}
				text = "\n" + string(content)
				texts[h.file] = text
			}
			if !h.in(text) {
				broken = append(broken, fmt.Sprintf("%s: doesn't apply to %s any more; mend it so that it takes out the same behaviour", name, h.file))
				break
			}
		}
		return nil
	})
	return broken, err
}

// in tells whether a file, with a line's end before it, has what the hunk wants to find.
func (h *hunk) in(text string) bool {
	old := "\n" + h.old
	return (!h.begin || strings.HasPrefix(text, old)) && (!h.end || strings.HasSuffix(text, old)) && strings.Contains(text, old)
}

// hunksOf reads a patch. As git does, it takes a hunk of the first line for one of the file's beginning, and one that
// ends with a change for one of its end.
func hunksOf(patch string) (out []hunk) {
	var file string
	var h *hunk
	for line := range strings.Lines(patch) {
		switch {
		case strings.HasPrefix(line, "diff --git "):
			h = nil
		case h == nil && strings.HasPrefix(line, "--- a/"):
			file = strings.TrimSpace(strings.TrimPrefix(line, "--- a/"))
		case strings.HasPrefix(line, "@@ "):
			out = append(out, hunk{file: file, begin: strings.HasPrefix(line, "@@ -0,") || strings.HasPrefix(line, "@@ -1,")})
			h = &out[len(out)-1]
		case h == nil || line[0] == '\\':
		case line[0] == '+':
			h.end = true
		case line[0] == '-':
			h.old += line[1:]
			h.end = true
		default:
			h.old += strings.TrimPrefix(line, " ")
			h.end = false
		}
	}
	return out
}

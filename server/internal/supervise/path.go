package supervise

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// executable finds a program as a shell does: a name with a slash is a path, any other is looked for in PATH. No shell
// is asked, there may be none.
func executable(name, path string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil // the kernel judges it
	}
	var refused error
	for _, folder := range filepath.SplitList(path) {
		if folder == "" {
			continue // the working directory, to a shell: never meant
		}
		full := filepath.Join(folder, name)
		info, err := os.Stat(full)
		switch {
		case err != nil || info.IsDir():
		case info.Mode()&0o111 == 0:
			refused = &fs.PathError{Op: "exec", Path: full, Err: fs.ErrPermission}
		default:
			return full, nil
		}
	}
	if refused != nil {
		return "", refused
	}
	return "", fmt.Errorf("%s: %w: it is in no folder of PATH=%q; write its path, as in /app/%[1]s", name, fs.ErrNotExist, path)
}

package supervise

import (
	"cmp"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
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

// trespass warns of a port at which somebody else serves: checks would be answered by the wrong one. It is asked of
// this machine only, which answers at once.
func (s *supervisor) trespass() {
	for _, service := range s.Services {
		host, port, err := net.SplitHostPort(service.Address)
		if err != nil || host != "" && host != "localhost" && !net.ParseIP(host).IsLoopback() {
			continue
		}
		nc, err := net.DialTimeout("tcp", net.JoinHostPort(cmp.Or(host, "localhost"), port), 100*time.Millisecond)
		if err != nil {
			continue
		}
		nc.Close()
		s.log.Warn("somebody else serves there already: the program won't be able to, and its checks ask the wrong one", "service", service.Name, "address", service.Address)
	}
}

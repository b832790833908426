//go:build !unix

package disk

import (
	"fmt"
	"os"
	"path/filepath"
)

// Without flock, owners and modes a folder can't be kept from others.

func prepare(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrFolder, err)
	}
	return "", fmt.Errorf("%w: %s: a server keeps data on Unix only; start it without --data", ErrFolder, dir)
}

func lockFolder(dir string) (*os.File, error) { return os.Open(dir) }

func openPlain(path string, flag int) (*os.File, error) { return os.OpenFile(path, flag, 0o600) }

//go:build unix

package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// prepare makes the folder and demands that nobody else can write to it: what stands there is believed.
func prepare(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrFolder, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("%w: %s can't be made: %w; make it, or name another with --data", ErrFolder, dir, err)
	}
	link, err := os.Lstat(dir)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrFolder, err)
	}
	if uid := owner(link); link.Mode()&os.ModeSymlink != 0 && uid != os.Geteuid() && uid != 0 {
		return "", fmt.Errorf("%w: %s is a link that user %d made; name the folder itself with --data", ErrFolder, dir, uid)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", fmt.Errorf("%w: %w", ErrFolder, err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrFolder, err)
	}
	mode := info.Mode().Perm()
	if owner(info) == os.Geteuid() {
		if mode&0o077 == 0 {
			return dir, nil
		}
		if err := os.Chmod(dir, 0o700); err == nil {
			return dir, nil
		}
	}
	return dir, foreign(dir, mode)
}

// foreign judges a folder that isn't this user's alone, such as a volume that its group may write to.
func foreign(dir string, mode os.FileMode) error {
	if mode&0o002 != 0 {
		return fmt.Errorf("%w: every user of this machine may write to %s; name a folder below it with --data, which is then made for this user alone", ErrFolder, dir)
	}
	for at := filepath.Dir(dir); ; at = filepath.Dir(at) {
		if info, err := os.Stat(at); err != nil || info.Mode().Perm()&0o002 != 0 {
			return fmt.Errorf("%w: every user of this machine may write to %s, and %s isn't this user's alone (mode 0700); choose another with --data", ErrFolder, at, dir)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

func owner(info os.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

// lockFolder holds the folder itself: that leaves no file behind, and works where nothing can be written. The
// system lets go of it with the process.
func lockFolder(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFolder, err)
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	switch {
	case err == nil:
		return f, nil
	case errors.Is(err, syscall.EWOULDBLOCK):
		err = fmt.Errorf("%w %s, probably another eider server; end that one, or give this one a folder of its own with --data", ErrLocked, dir)
	default:
		err = fmt.Errorf("%w: %s can't be locked: %w", ErrFolder, dir, err)
	}
	f.Close()
	return nil, err
}

// openPlain opens a file of the store: never what a link leads to, never another user's, never a device.
func openPlain(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, flag|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("%w: %s is a link, which a server never makes; remove it", ErrFolder, path)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: %s isn't a plain file, which a server never makes; remove it", ErrFolder, path)
	}
	if err == nil && owner(info) != os.Geteuid() {
		err = fmt.Errorf("%w: %s belongs to user %d, not to the one that runs this; give it to that user, or remove it", ErrFolder, path, owner(info))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

package roster

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// folder keeps files that say where this process' requests go: whoever could write into it could have them sent to
// himself. So it is this user's alone, and so are the files; what isn't is neither read nor written.
type folder struct {
	dir string
	uid int // whose files are trusted
}

const leftover = time.Hour // a file half written so long ago was left by a process that died over it

var errNone = errors.New("there is none")

func newFolder(dir string) folder { return folder{dir: dir, uid: os.Geteuid()} }

func (f folder) path(name string) string { return filepath.Join(f.dir, name) }

// open opens the folder and holds it to being safe. Everything else is done through what it returns, so that the
// folder that was looked at is the one that is used.
func (f folder) open() (*os.Root, error) {
	root, err := os.OpenRoot(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNone
	}
	if err != nil {
		return nil, err
	}
	if err := f.safe(root); err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}

// safe tells why the folder isn't safe, nil if it is.
func (f folder) safe(root *os.Root) error {
	info, err := root.Stat(".")
	if err != nil {
		return err
	}
	if err := f.ours(info, "the folder "+f.dir); err != nil {
		return err
	}
	return f.sheltered()
}

// sheltered tells who else could put another folder in the place of this one. One above it that is writable for
// everybody is well if it is this user's own, or sticky.
func (f folder) sheltered() error {
	real, err := filepath.Abs(f.dir)
	if err == nil {
		real, err = filepath.EvalSymlinks(real)
	}
	if err != nil {
		return err
	}
	for at := filepath.Dir(real); ; at = filepath.Dir(at) {
		above, err := os.Stat(at)
		if err != nil {
			return err
		}
		if uid, known := ownerOf(above); known && uid != f.uid && above.Mode().Perm()&0o002 != 0 && above.Mode()&fs.ModeSticky == 0 {
			return fmt.Errorf("%s above it is writable for everybody, who could put another folder in its place: use one in a place of its own, such as /var/lib/NAME, or chmod o-w %s", at, at)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// ours tells why a file or folder isn't this user's alone, nil if it is.
func (f folder) ours(info fs.FileInfo, what string) error {
	uid, known := ownerOf(info)
	switch {
	case !known:
		return nil // a system without owners has no modes either
	case uid != f.uid:
		return fmt.Errorf("%s belongs to user %d, and only what belongs to this process' user (%d) is trusted", what, uid, f.uid)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s is writable for others (%s): chmod go-w, and have a look at what they wrote", what, info.Mode().Perm())
	}
	return nil
}

// read returns a file of at most so many bytes; errNone if there is none.
func (f folder) read(name string, most int64) ([]byte, error) {
	root, err := f.open()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	file, err := root.OpenFile(name, os.O_RDONLY|openFlags, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNone
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("it is no regular file (%s)", info.Mode().Type())
	}
	if err := f.ours(info, "it"); err != nil {
		return nil, err
	}
	if info.Size() > most {
		return nil, fmt.Errorf("it has %d bytes, at most %d are read", info.Size(), most)
	}
	return io.ReadAll(io.LimitReader(file, most))
}

// write puts a whole file in the place of what was there, and makes the folder if there is none: after a crash at
// any moment there is the old one or the new one.
func (f folder) write(name string, text []byte) (err error) {
	root, err := f.open()
	if errors.Is(err, errNone) {
		if err = os.MkdirAll(f.dir, 0o700); err == nil {
			root, err = f.open()
		}
	}
	if err != nil {
		return err
	}
	defer root.Close()
	f.sweep(root, name)
	part := fmt.Sprintf("%s.%08x.part", name, rand.Uint32())
	file, err := root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	err = errors.Join(err, file.Close())
	if err == nil {
		err = root.Rename(part, name)
	}
	if err != nil {
		root.Remove(part) // its error would say no more
		return err
	}
	return syncFolder(root)
}

// sweep removes what processes that died over a write have left.
func (f folder) sweep(root *os.Root, name string) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), name+".") || !strings.HasSuffix(e.Name(), ".part") {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > leftover {
			root.Remove(e.Name())
		}
	}
}

// setAside renames a file that can't be used, and returns its new name, "" if that failed.
func (f folder) setAside(name string) string {
	root, err := f.open()
	if err != nil {
		return ""
	}
	defer root.Close()
	if root.Rename(name, name+".damaged") != nil {
		return ""
	}
	return f.path(name + ".damaged")
}

// syncFolder makes a rename last.
func syncFolder(root *os.Root) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

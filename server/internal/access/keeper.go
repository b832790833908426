package access

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// Keeper holds the newest book that could be read from a file.
type Keeper struct {
	path string
	book atomic.Pointer[Book]
	file watched
}

// NewKeeper returns the keeper of a file, which Reload reads; until then nobody is known.
func NewKeeper(path string) *Keeper {
	k := &Keeper{path: path, file: watched{paths: []string{path}}}
	k.book.Store(&Book{})
	return k
}

// Book returns the newest book.
func (k *Keeper) Book() *Book { return k.book.Load() }

// Reload reads the file if it has changed, and tells whether there is a new book. After an error the old one
// stays, and the file is tried again: each error is told once. One goroutine calls it.
func (k *Keeper) Reload() (changed bool, err error) {
	return k.file.look(func() error {
		data, err := readSecret(k.path)
		if err != nil {
			return err
		}
		book, err := Parse(k.path, data)
		if err == nil {
			k.book.Store(book)
		}
		return err
	})
}

// Expires tells when the next identity does; the zero time if none will.
func (k *Keeper) Expires(now time.Time) time.Time { return k.Book().expires(now) }

// watched is some files that are read anew when one of them changes.
type watched struct {
	paths []string
	seen  []fs.FileInfo
	told  string // the last error
}

func (w *watched) look(read func() error) (changed bool, err error) {
	infos := make([]fs.FileInfo, len(w.paths))
	same := len(w.seen) == len(infos)
	for i, path := range w.paths {
		info, err := os.Stat(path)
		if err != nil {
			return false, w.tell(err)
		}
		infos[i] = info
		same = same && os.SameFile(info, w.seen[i]) && info.ModTime().Equal(w.seen[i].ModTime()) &&
			info.Size() == w.seen[i].Size() && info.Mode() == w.seen[i].Mode()
	}
	if same {
		return false, nil
	}
	if err := read(); err != nil {
		return false, w.tell(err)
	}
	w.seen, w.told = infos, ""
	return true, nil
}

// tell returns an error unless it was the last one too.
func (w *watched) tell(err error) error {
	if err.Error() == w.told {
		return nil
	}
	w.told = err.Error()
	return err
}

// readSecret reads a file that others may not: nothing for everybody, and for its group reading at most.
func readSecret(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o037 != 0 {
		return nil, fmt.Errorf("%s: its mode is %04o, so that others of this machine could read or change it: chmod 600 %s", path, mode, path)
	}
	if info.Size() > maxBook {
		return nil, fmt.Errorf("%s: has %d bytes, at most %d are read", path, info.Size(), maxBook)
	}
	var buf bytes.Buffer
	_, err = buf.ReadFrom(f)
	return buf.Bytes(), err
}

// NewToken draws a token: 256 random bits, behind a word by which scanners of secrets know it.
func NewToken() string {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // it never fails
	return "eider_" + base64.RawURLEncoding.EncodeToString(secret[:])
}

// ReadToken reads a token from a file that holds it alone.
func ReadToken(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(data))
	if token == "" || len(token) > 1024 || strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		return "", errors.New(path + ": must hold one token alone, as `eider tokens add` has shown it")
	}
	return token, nil
}

package disk

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// load reads both files. What isn't right is set aside; an error means that the folder can't be read at all.
func (s *Store) load() (Found, error) {
	var found Found
	snapshot, err := s.read(snapshotName)
	if err != nil {
		return found, err
	}
	log, err := s.read(logName)
	if err != nil {
		return found, err
	}
	found.Before = snapshot != nil || log != nil
	st, g := state{pairs: map[string]string{}}, generation{}
	var wrong error
	if snapshot != nil {
		if st, g, wrong = readSnapshot(snapshot); wrong != nil {
			s.aside(&found, snapshotName, wrong)
			st = state{pairs: map[string]string{}}
		}
	}
	if log != nil {
		s.loadLog(&found, &st, log, g, snapshot != nil && wrong == nil)
	}
	s.pairs, s.gen, s.written = st.pairs, g, st.written
	for key, value := range s.pairs {
		s.size += frameSize(key, value)
	}
	s.snapshot, s.logged = int64(len(snapshot)), int64(len(log))
	found.Written, found.Closed = st.written, st.closed && !found.Damaged
	return found, nil
}

func (s *Store) loadLog(found *Found, st *state, log []byte, g generation, whole bool) {
	own, wrong := readHeader(log, roleLog)
	switch {
	case wrong == nil && whole && own != g && own.count < g.count:
		// The snapshot contains it: the run before ended between the two.
	case wrong != nil:
		s.aside(found, logName, wrong)
	case !whole || own != g:
		s.aside(found, logName, errors.New("has lost the snapshot that it belongs to"))
	default:
		torn, wrong := st.readLog(log, g)
		if wrong != nil {
			s.aside(found, logName, wrong)
		} else if torn > 0 {
			found.Notes = append(found.Notes, fmt.Sprintf("the last %d of %d bytes of the log were never wholly written, and are left out", torn, len(log)))
		}
	}
}

// read returns a file's bytes, nil if there is none.
func (s *Store) read(name string) ([]byte, error) {
	path := filepath.Join(s.dir, name)
	f, err := openPlain(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	data := make([]byte, info.Size())
	if _, err := io.ReadFull(f, data); err != nil {
		return []byte{}, nil // no byte of it can be trusted: it is damaged
	}
	return data, nil
}

// aside renames a file that isn't right, so that nobody loses what may still be told from it.
func (s *Store) aside(found *Found, name string, wrong error) {
	found.Damaged = true
	ending := "damaged"
	switch {
	case errors.Is(wrong, errOld):
		ending = "old"
	case errors.Is(wrong, errNew):
		ending = "newer"
	}
	from := filepath.Join(s.dir, name)
	to := from
	for n := 1; ; n++ {
		to = fmt.Sprintf("%s.%s-%d", from, ending, n)
		if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) {
			break
		}
		if n == maxAside {
			found.Notes = append(found.Notes, fmt.Sprintf("%s %v; it is replaced, since %d like it are kept already", from, wrong, n))
			return
		}
	}
	note := fmt.Sprintf("%s %v; it is kept as %s", from, wrong, to)
	if err := os.Rename(from, to); err != nil {
		note = fmt.Sprintf("%s %v, and can't be set aside: %v", from, wrong, err)
	}
	found.Notes = append(found.Notes, note)
}

const maxAside = 99

// reopen takes back that the run before ended in order, before anything new can be missing.
func (s *Store) reopen() error {
	log, err := openPlain(filepath.Join(s.dir, logName), os.O_WRONLY|os.O_APPEND)
	if err != nil {
		return err
	}
	_, err = log.Write(appendFrame(nil, s.gen, frameOpened, "", ""))
	if err == nil {
		err = log.Sync()
	}
	return errors.Join(err, log.Close())
}

// rotate writes a snapshot and begins its log.
func (s *Store) rotate(now time.Time) {
	if s.cause = s.writeSnapshot(now); s.cause == nil {
		s.wait, s.retry = 0, time.Time{}
		return
	}
	s.errors++
	s.wait = min(max(2*s.wait, time.Second), maxRetry)
	s.retry = now.Add(s.wait)
}

func (s *Store) writeSnapshot(now time.Time) error {
	g := generation{s.gen.count + 1, rand.Uint64()}
	size, err := s.replace(snapshotName, func(w *bufio.Writer) {
		b := appendTime(appendHeader(nil, roleSnapshot, g), g, now)
		for key, value := range s.pairs {
			w.Write(b)
			b = appendFrame(b[:0], g, framePut, key, value)
		}
		w.Write(appendEnd(b, g, len(s.pairs)))
	})
	if err != nil {
		return err
	}
	if s.log != nil {
		s.abandon() // the old log is history: its generation is over
	}
	s.gen, s.snapshot, s.logged, s.written, s.synced = g, size, 0, now, now
	if err := syncFolder(s.dir); err != nil { // the log must never be there before its snapshot
		return err
	}
	size, err = s.replace(logName, func(w *bufio.Writer) { w.Write(appendHeader(nil, roleLog, g)) })
	if err != nil {
		return err
	}
	if err := syncFolder(s.dir); err != nil {
		return err
	}
	log, err := openPlain(filepath.Join(s.dir, logName), os.O_WRONLY|os.O_APPEND)
	if err != nil {
		return err
	}
	s.log, s.logged, s.batch = log, size, nil
	return nil
}

// replace writes a file beside the one of its name and renames it: whoever comes finds one of both, whole.
func (s *Store) replace(name string, write func(*bufio.Writer)) (size int64, err error) {
	path := filepath.Join(s.dir, name)
	beside := path + ".tmp"
	if err := os.Remove(beside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	f, err := openPlain(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return 0, err
	}
	w := bufio.NewWriterSize(f, 1<<16)
	write(w) // an error stays in w
	err = w.Flush()
	if err == nil {
		err = f.Sync()
	}
	if info, statErr := f.Stat(); err == nil && statErr == nil {
		size = info.Size()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(beside, path)
	}
	if err != nil {
		os.Remove(beside) // a full disk needs the room
		return 0, err
	}
	return size, nil
}

func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Package disk keeps a map of keys to values in one folder, across runs of the process.
//
// Two files: snapshot has every pair, log what has changed since. Each begins with a header (magic, version,
// which of the two, a generation that both share) and goes on in frames: length, CRC-32C, payload. A snapshot
// is written beside the old one, synced and renamed; a log only grows. When the log is longer than the snapshot
// a new snapshot begins a new generation.
//
//	crash while                      what the next run finds
//	a frame is written               a torn tail, which is cut
//	a snapshot is written            the old generation, whole
//	it is renamed, the log isn't     a log of the generation before, which the snapshot contains
//
// What isn't so is damage: the file is set aside under a name of its own, and the rest is used as far as it is
// right by itself.
//
// A [Store] is used by one goroutine. It keeps its own copy of the map: so a snapshot stops nobody, and after a
// full disk everything that wasn't written is at hand.
package disk

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"time"
)

// ErrLocked means that another process uses the folder.
var ErrLocked = errors.New("another process uses the folder")

// ErrFolder means that the folder can't be used as it is.
var ErrFolder = errors.New("the folder can't be used")

const (
	snapshotName = "snapshot"
	logName      = "log"

	minLog    = 1 << 20          // a log this short is never too long
	syncEvery = time.Second      // what is written is synced at most this often: the price of a power cut, not of a crash
	markEvery = time.Minute      // how often an unchanged store says that it lives
	maxRetry  = 30 * time.Second // between two tries to write a snapshot
)

// Found is what a folder held when it was opened.
type Found struct {
	Pairs   map[string]string // the asker's
	Written time.Time         // when the last run that could write last did; zero when there is nothing
	Closed  bool              // that run ended in order: nothing that it knew is missing
	Before  bool              // there was something, whole or not
	Damaged bool              // something is missing for want of a whole file
	Notes   []string          // sentences of what was cut or set aside, and where it is now
}

// Stats tell how a store fares.
type Stats struct {
	Keys    int
	Bytes   int64     // of both files
	Written time.Time // when the last of what the folder has was written
	Errors  int64     // failed writes
}

// Store is an open folder.
type Store struct {
	dir  string
	lock *os.File
	log  *os.File // nil when nothing may be appended: the next write is a snapshot

	pairs map[string]string // key and value of a pair are one string, cut in two: a collection looks at half as many
	size  int64             // of the pairs as frames
	batch []byte            // frames not yet in the log
	joint []byte            // of the pair at hand
	gen   generation

	snapshot int64 // bytes
	logged   int64 // bytes
	unsynced bool
	synced   time.Time
	written  time.Time
	retry    time.Time // when a snapshot may be tried again
	wait     time.Duration
	cause    error // why the last snapshot couldn't be written; nil if it could
	errors   int64
}

// Open locks a folder, made if it isn't there, and returns what it holds. The first Flush writes a snapshot of it.
// The error is ErrLocked, ErrFolder, or what the system says.
func Open(dir string) (*Store, Found, error) {
	dir, err := prepare(dir)
	if err != nil {
		return nil, Found{}, err
	}
	lock, err := lockFolder(dir)
	if err != nil {
		return nil, Found{}, err
	}
	s := &Store{dir: dir, lock: lock, pairs: map[string]string{}}
	found, err := s.load()
	if err != nil {
		lock.Close()
		return nil, Found{}, err
	}
	if found.Closed {
		if err := s.reopen(); err != nil {
			found.Closed = false // else a run that can't write would be taken for no run at all
			found.Notes = append(found.Notes, fmt.Sprintf("that a run has begun can't be written: %v", err))
		}
	}
	found.Pairs = maps.Clone(s.pairs)
	return s, found, nil
}

// Put gives a key a value. Nothing is written before Flush. The error is for what is too
// long to be kept.
func (s *Store) Put(key string, value []byte) error {
	if len(key) > maxKey || len(key)+len(value) > maxPayload-3 {
		return fmt.Errorf("%.40q has %d bytes, at most %d are kept", key, len(key)+len(value), maxPayload-3)
	}
	was, had := s.pairs[key]
	if had && was == string(value) {
		return nil
	}
	if had {
		s.size -= frameSize(key, was)
	}
	s.joint = append(append(s.joint[:0], key...), value...)
	joint := string(s.joint)
	key = joint[:len(key)]
	s.pairs[key] = joint[len(key):]
	s.size += frameSize(key, s.pairs[key])
	s.append(framePut, key, s.pairs[key])
	return nil
}

// Delete forgets a key.
func (s *Store) Delete(key string) {
	was, had := s.pairs[key]
	if !had {
		return
	}
	delete(s.pairs, key)
	s.size -= frameSize(key, was)
	s.append(frameDelete, key, "")
}

// Retain forgets every key that keep says no to.
func (s *Store) Retain(keep func(key string) bool) {
	for key := range s.pairs {
		if !keep(key) {
			s.Delete(key)
		}
	}
}

func (s *Store) append(kind byte, key, value string) {
	if s.log != nil {
		s.batch = appendFrame(s.batch, s.gen, kind, key, value)
	}
}

// Flush writes what has changed. After a failure nothing is appended any more, since a half-written frame can't be
// continued; the store then writes a whole snapshot, as soon as it can. The error says why it can't.
func (s *Store) Flush(now time.Time) error {
	if s.log != nil && (len(s.batch) > 0 || now.Sub(s.written) >= markEvery) {
		s.appendLog(now)
	}
	if s.log != nil && s.unsynced && now.Sub(s.synced) >= syncEvery {
		s.sync(now)
	}
	if (s.log == nil || s.logged > max(minLog, s.snapshot)) && !now.Before(s.retry) {
		s.rotate(now)
	}
	return s.cause
}

// Due tells when Flush has something to do although nothing has changed.
func (s *Store) Due() time.Time {
	switch {
	case s.log == nil || s.cause != nil:
		return s.retry
	case s.unsynced:
		return s.synced.Add(syncEvery)
	}
	return s.written.Add(markEvery)
}

func (s *Store) appendLog(now time.Time) error {
	s.batch = appendTime(s.batch, s.gen, now)
	n, err := s.log.Write(s.batch)
	s.logged += int64(n)
	if err != nil {
		s.abandon()
		s.errors++
		return err
	}
	s.written, s.unsynced = now, true
	if s.batch = s.batch[:0]; cap(s.batch) > minLog {
		s.batch = nil
	}
	return nil
}

func (s *Store) sync(now time.Time) error {
	if err := s.log.Sync(); err != nil {
		s.abandon() // what the system couldn't write it may have forgotten by now
		s.errors++
		return err
	}
	s.unsynced, s.synced = false, now
	return nil
}

// abandon stops appending.
func (s *Store) abandon() {
	s.log.Close()
	s.log, s.batch, s.unsynced = nil, nil, false
}

// Close writes the rest, marks the end and unlocks the folder. Without an error the next run finds all.
func (s *Store) Close(now time.Time) error {
	s.retry = time.Time{}
	err := s.Flush(now)
	if err == nil {
		s.batch = appendFrame(s.batch, s.gen, frameClosed, "", "")
		if err = s.appendLog(now); err == nil {
			err = s.sync(now)
		}
	}
	if s.log != nil {
		err = errors.Join(err, s.log.Close())
		s.log = nil
	}
	return errors.Join(err, s.lock.Close())
}

// Stats tells how the store fares.
func (s *Store) Stats() Stats {
	return Stats{Keys: len(s.pairs), Bytes: s.snapshot + s.logged, Written: s.written, Errors: s.errors}
}

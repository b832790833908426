package roster

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/registry"
	"github.com/eiderhq/eider/retry"
)

// The list on disk, so that a process can start while the registry is away.
//
//	        ┌─the node's first view─────────────────────────────────────► kept current, saved as it changes
//	start ──┤
//	        └─the registry is away, or silent for a second──► from disk ──the node's first view──► likewise
//
// What is read is a hint. It is incomplete, so nobody is dropped for it or by it; nothing is acknowledged for it;
// nobody is let go of for it; and the first view of a node stands as it is. A list with nobody in it is none:
// waiting for the registry is better than to be sure that nobody serves.
const (
	diskVersion  = 1
	diskKeep     = 24 * time.Hour   // as long as a node remembers who is gone: what is older may list addresses that others have
	diskMost     = 32 << 20         // bytes of one file
	diskPatience = time.Second      // how long the registry is waited for before the list on disk is used
	saveAfter    = time.Second      // after a save, changes wait for so long and are saved together; jittered down by up to a quarter
	saveShare    = 20               // and after one that took long, for so many times as long: a twentieth of a disk is enough
	saveAgain    = 10 * time.Minute // a list that doesn't change is still true: its age begins anew; jittered likewise
	saveRetry    = time.Minute      // after one that failed; jittered likewise
	saveFarewell = 2 * time.Second  // Close waits no longer for a disk that hangs
)

// saved is what a file says.
type saved struct {
	Service string        `json:"service"`
	Heard   time.Time     `json:"heard"` // when the view was last known to be current
	Lease   time.Duration `json:"lease"` // nanoseconds
	View    *eider.View   `json:"view"`
}

var (
	errDamaged = errors.New("it is damaged")
	errTooOld  = errors.New("it is too old")
	errVersion = errors.New("another version of Eider wrote it")
)

// encode writes a line of its own, with the checksum of what follows: one line of JSON.
func (s *saved) encode() ([]byte, error) {
	body, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	body = append(body, '\n')
	out := fmt.Appendf(nil, "eider roster %d %x %d\n", diskVersion, sha256.Sum256(body), len(body))
	if len(out)+len(body) > diskMost {
		return nil, fmt.Errorf("the list has %d bytes, at most %d are saved", len(body), diskMost)
	}
	return append(out, body...), nil
}

// decode reads what encode has written, and nothing else.
func decode(text []byte, service string, now time.Time) (*saved, error) {
	head, body, found := bytes.Cut(text, []byte{'\n'})
	var version, length int
	var sum []byte
	if _, err := fmt.Sscanf(string(head), "eider roster %d %x %d", &version, &sum, &length); err != nil || !found {
		return nil, fmt.Errorf("%w: its first line isn't that of a list", errDamaged)
	}
	if version != diskVersion {
		return nil, fmt.Errorf("%w: it has version %d, this one reads %d", errVersion, version, diskVersion)
	}
	is := sha256.Sum256(body)
	if !bytes.Equal(is[:], sum) || string(head) != fmt.Sprintf("eider roster %d %x %d", version, is, len(body)) {
		return nil, fmt.Errorf("%w: its checksum is another", errDamaged)
	}
	s := &saved{}
	if err := json.Unmarshal(body, s); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return s, s.check(service, now)
}

// check holds what a file says to what a node would have said. A right checksum proves only that it was written so.
func (s *saved) check(service string, now time.Time) error {
	if s.View == nil || s.Service != service || s.View.Service != service {
		return fmt.Errorf("%w: it isn't a list of %s", errDamaged, service)
	}
	for i := range s.View.Instances {
		in := &s.View.Instances[i]
		err := in.Record.Check()
		if err == nil && (in.Service != service || in.Incarnation.Nonce == 0 || !in.Status.Live()) {
			err = fmt.Errorf("%s as %s is no instance of %s", in.Key, in.Status, service)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errDamaged, err)
		}
	}
	// A clock that was stepped makes an age of either sign.
	if age := now.Sub(s.Heard); age > diskKeep || age < -diskKeep {
		return fmt.Errorf("%w: it was current %s ago, at most %s are trusted", errTooOld, age.Truncate(time.Second), diskKeep)
	}
	return nil
}

// disk keeps the list of one service. Whatever happens to it disturbs nobody: it runs in a goroutine of its own,
// that Close awaits for a moment.
type disk struct {
	folder folder
	name   string // of the file
	log    *slog.Logger

	found   chan registry.Update // gets what was read, at most once, and is closed
	changed chan struct{}        // one token: there is something to save
	needed  chan struct{}        // one token: the inbox has news
	ended   chan struct{}
	ill     atomic.Bool // the last save failed
	last    *saved      // at Close
	kept    *eider.View // the node's view that was saved last; guarded by the roster's lock
}

func newDisk(dir, service string, log *slog.Logger) *disk {
	return &disk{folder: newFolder(dir), name: service + ".roster", log: log, found: make(chan registry.Update, 1),
		changed: make(chan struct{}, 1), needed: make(chan struct{}, 1), ended: make(chan struct{})}
}

// ring leaves a token. It never blocks.
func (d *disk) ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// await waits for the last save.
func (d *disk) await() {
	patience := time.NewTimer(saveFarewell)
	defer patience.Stop()
	select {
	case <-d.ended:
	case <-patience.C:
	}
}

// read returns what is on disk, as the view that a roster begins with.
func (d *disk) read(service string, now time.Time) (u registry.Update, ok bool) {
	text, err := d.folder.read(d.name, diskMost)
	if err != nil {
		if !errors.Is(err, errNone) {
			d.log.Warn("the list on disk isn't used", "service", service, "file", d.folder.path(d.name), "error", err)
		}
		return u, false
	}
	s, err := decode(text, service, now)
	if err != nil {
		aside := ""
		if !errors.Is(err, errTooOld) { // the next save replaces it, and somebody may want to know what it was
			aside = d.folder.setAside(d.name)
		}
		d.log.Warn("the list on disk isn't used", "service", service, "file", d.folder.path(d.name), "error", err, "aside", aside)
		return u, false
	}
	if len(s.View.Instances) == 0 {
		return u, false
	}
	heard := s.Heard
	if heard.After(now) {
		heard = now
	}
	return registry.Update{View: ordered(&eider.View{Service: service, Instances: s.View.Instances}), Heard: heard, Lease: s.Lease, FromDisk: true}, true
}

// keeps reads once and saves from then on, until the roster is closed.
func (r *Roster) keeps() {
	d := r.disk
	defer close(d.ended)
	if u, ok := d.read(r.service, time.Now()); ok {
		d.found <- u
	}
	close(d.found)
	again := time.NewTimer(early(saveAgain))
	defer again.Stop()
	for open := true; open; {
		select {
		case <-d.changed:
		case <-again.C:
		case <-r.run.ctx.Done():
		}
		begun := time.Now()
		d.save(r.toSave(), r.service)
		if again.Reset(early(saveAgain)); d.ill.Load() {
			again.Reset(early(saveRetry))
		}
		open = r.sleep(max(early(saveAfter), saveShare*time.Since(begun)))
	}
	d.save(d.last, r.service)
}

func early(d time.Duration) time.Duration { return retry.Early(d, 0.25, rand.Float64()) }

// sleep waits; false means that the roster is closed.
func (r *Roster) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.run.ctx.Done():
		return false
	}
}

// save writes a list, nil for none. What fails is said once, until it works again.
func (d *disk) save(s *saved, service string) {
	if s == nil {
		return
	}
	text, err := s.encode()
	if err == nil {
		err = d.folder.write(d.name, text)
	}
	switch {
	case err != nil && !d.ill.Load():
		d.log.Warn("the list can't be saved to disk; were this process to start again while the registry is away, it would know nobody",
			"service", service, "file", d.folder.path(d.name), "error", err)
	case err == nil && d.ill.Load():
		d.log.Info("the list is saved to disk again", "service", service, "file", d.folder.path(d.name))
	}
	d.ill.Store(err != nil)
}

// toSave returns the list, nil if it isn't worth saving: what came from disk says nothing new, and an outage makes
// what was saved before it no truer. Another process that isn't cut off may have saved more since.
func (r *Roster) toSave() *saved {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.record()
}

// record is toSave. Called under the lock.
func (r *Roster) record() *saved {
	s := r.snap.Load()
	if s == nil || s.closed || r.news.View == nil || r.news.FromDisk || !r.news.Connected && r.news.View == r.disk.kept && !r.disk.ill.Load() {
		return nil
	}
	r.disk.kept = r.news.View
	out := &saved{Service: r.service, Heard: r.news.Heard, Lease: r.news.Lease}
	if r.news.Connected {
		out.Heard = time.Now()
	}
	out.View = &eider.View{Service: r.service, Cursor: s.view.Cursor, Instances: slices.Clone(s.view.Instances)}
	for i := range out.View.Instances {
		in := &out.View.Instances[i]
		in.Suspicion &^= eider.Absent // of this process' own, and as old as it is
		if m, ok := r.find(in.ID); ok && m.said.Load() {
			in.Status = eider.Draining // the registry may not know it yet
		}
	}
	return out
}

// starts owns the inbox until the first view has been taken: a node's, or, if the registry is away, the one on
// disk. Nobody waits for the disk: a node's view is taken whether the file has been read or not.
func (r *Roster) starts() {
	d, b := r.disk, &r.inbox
	patience := time.NewTimer(diskPatience)
	defer patience.Stop()
	var onDisk registry.Update
	found, away := d.found, false
	for r.run.ctx.Err() == nil && !(away && found == nil) {
		select {
		case onDisk = <-found: // the zero update if there is none
			found = nil
		case <-patience.C:
			away = true
		case <-d.needed:
			b.mu.Lock()
			next := b.next
			b.mu.Unlock()
			if next.View != nil {
				r.takeAll()
				return
			}
			away = true
		case <-r.run.ctx.Done():
		}
	}
	if onDisk.View != nil && r.run.ctx.Err() == nil {
		r.startFrom(onDisk)
	}
	r.takeAll()
}

// startFrom begins with what is on disk.
func (r *Roster) startFrom(u registry.Update) {
	r.disk.log.Warn("the registry is away: picking from the list on disk", "service", r.service,
		"age", time.Since(u.Heard).Truncate(time.Second).String(), "instances", len(u.View.Instances))
	r.take(u)
}

// stays says of an update that brings no view that the last one is from disk, if it is, and how old.
func (r *Roster) stays(u *registry.Update) {
	if r.news.FromDisk {
		u.FromDisk, u.Heard = true, r.news.Heard
	}
}

// hinted tells whether it is only from disk that a member is said to leave: then nobody is let go of. What it says
// of itself is no hint.
func (r *Roster) hinted(m *member) bool { return r.news.FromDisk && !m.said.Load() }

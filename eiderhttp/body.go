package eiderhttp

import (
	"bytes"
	"io"
	"net/http"
	"reflect"
	"sync"
)

// body is a request's body over several tries. net/http closes a body with every failed try; one that nobody has
// read from is as good as new, so closing is put off until it is known that no other try needs it.
type body struct {
	src   io.ReadCloser
	again func() (io.ReadCloser, error) // Request.GetBody
	lent  bool                          // src was given out as it is, unwatched: only again makes another
	next  io.ReadCloser                 // made by again, for the next try

	mu     sync.Mutex // the transport reads and closes in a goroutine of its own
	read   bool       // src was read from
	failed error      // what reading src ended with, if not io.EOF
	asked  bool       // a try has closed it
	handed bool       // no other try will come: closing closes
	closed bool       // src is closed
}

// newBody returns nil for a request without a body, and for one whose body the first try may have as it is; every
// method works on nil.
func newBody(req *http.Request) *body {
	if !hasBody(req) || lends(req) {
		return nil
	}
	return &body{src: req.Body, again: req.GetBody}
}

// lentBody is the body of a request whose first try had it as it is, nil if it has none.
func lentBody(req *http.Request) *body {
	if !hasBody(req) {
		return nil
	}
	return &body{src: req.Body, again: req.GetBody, lent: true}
}

func hasBody(req *http.Request) bool { return req.Body != nil && req.Body != http.NoBody }

// lends tells whether a body is given out as it is. net/http sends what it knows to be in memory together with the
// header, and a wrapper would hide that.
func lends(req *http.Request) bool { return req.GetBody != nil && inMemory(req.Body) }

// take returns the body for a try.
func (b *body) take(req *http.Request) io.ReadCloser {
	switch {
	case b == nil:
		return req.Body
	case b.next != nil:
		next := b.next
		b.next = nil
		return next
	}
	return (*watchedBody)(b)
}

// rewind makes the body ready for another try; false if it can't be.
func (b *body) rewind() bool {
	if b == nil {
		return true
	}
	if !b.lent {
		b.mu.Lock()
		intact := !b.read
		b.mu.Unlock()
		if intact {
			return true
		}
	}
	if b.again == nil {
		return false
	}
	next, err := b.again()
	b.next = next
	return err == nil
}

// err returns what reading the body failed with: the caller's fault, not the instance's.
func (b *body) err() error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed
}

// handOver says that no other try comes: a close that was put off is made up for.
func (b *body) handOver() {
	if b == nil {
		return
	}
	if b.next != nil {
		b.next.Close()
		b.next = nil
	}
	if b.lent {
		return
	}
	b.mu.Lock()
	b.handed = true
	due := b.asked && !b.closed
	b.closed = b.closed || due
	b.mu.Unlock()
	if due {
		b.src.Close()
	}
}

// watchedBody is src as a try sees it.
type watchedBody body

func (w *watchedBody) Read(p []byte) (int, error) {
	w.mu.Lock()
	w.read = true
	w.mu.Unlock()
	n, err := w.src.Read(p)
	if err != nil && err != io.EOF {
		w.mu.Lock()
		if !w.closed { // else it is net/http that has closed it under its own reading
			w.failed = err
		}
		w.mu.Unlock()
	}
	return n, err
}

func (w *watchedBody) Close() error {
	w.mu.Lock()
	w.asked = true
	due := (w.read || w.handed) && !w.closed
	w.closed = w.closed || due
	w.mu.Unlock()
	if due {
		return w.src.Close()
	}
	return nil
}

// inMemory tells whether a body is what http.NewRequest makes of a bytes.Reader, bytes.Buffer or strings.Reader.
func inMemory(rc io.ReadCloser) bool {
	return reflect.TypeOf(rc) == reflect.TypeOf(io.NopCloser(noBytes))
}

var noBytes = &bytes.Reader{}

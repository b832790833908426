package eidergrpc

import (
	"context"
	"io"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// mostKept is how many messages of a stream are kept to be sent again, until its first answer.
const mostKept = 16

// stream opens a stream, in as many tries as it takes and may have.
func (cl *client) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	c := cl.newCall(ctx, method, true)
	opts = append(opts[:len(opts):len(opts)], grpc.OnFinish(c.streamEnded))
	s := &stream{c: c, one: !desc.ServerStreams, open: func() (grpc.ClientStream, error) { return open(c, desc, cc, method, opts...) }}
	returned := false
	defer func() {
		if !returned {
			c.broken()
		}
	}()
	first, err := s.opened()
	returned = true
	if err != nil {
		c.end(err)
		return nil, err
	}
	s.now.Store(&first)
	return s, nil
}

// streamEnded is gRPC's word that one of the streams of the call has ended.
func (c *call) streamEnded(err error) {
	if err != nil { // else whoever reads finds out how
		c.ended(err)
	}
	if c.Context.Err() != nil { // nobody needs to read on
		c.end(err)
	}
}

// stream is a stream that may be opened again elsewhere until its first answer: gRPC does that itself once, and not
// for a call that was meant for somebody else.
type stream struct {
	c    *call
	open func() (grpc.ClientStream, error)
	one  bool // one answer is all
	now  atomic.Pointer[grpc.ClientStream]

	answered atomic.Bool // nothing is sent again from here on

	sending sync.Mutex // SendMsg, CloseSend, and sending again
	kept    []any      // what was sent
	closed  bool       // CloseSend was called
	final   bool       // more was sent than is kept, or the user knows already that it has ended
}

// opened opens it, elsewhere if that fails. If it panics instead, by the user's own credentials, gRPC never says Done:
// the pick counts as written then, hence for a second more.
func (s *stream) opened() (grpc.ClientStream, error) {
	defer s.c.wrote()
	for {
		cs, err := s.open()
		if err == nil {
			return cs, nil
		}
		s.c.ended(err)
		if !s.c.again(err) {
			return nil, s.c.explain(err)
		}
	}
}

func (s *stream) current() grpc.ClientStream { return *s.now.Load() }

func (s *stream) Header() (metadata.MD, error) { return s.current().Header() }
func (s *stream) Trailer() metadata.MD         { return s.current().Trailer() }
func (s *stream) Context() context.Context     { return s.current().Context() }

func (s *stream) SendMsg(m any) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	switch {
	case s.answered.Load():
		s.kept = nil
	case s.final:
	default:
		if len(s.kept) < mostKept {
			s.kept = append(s.kept, m) // gRPC forbids changing it after SendMsg
		} else {
			s.final, s.kept = true, nil
		}
	}
	err := s.current().SendMsg(m)
	if err == io.EOF && !s.final && !s.answered.Load() {
		return nil // it is kept: whoever reads has it sent elsewhere, or hears why it isn't
	}
	if err != nil {
		s.final, s.kept = true, nil // the user stops sending, so that another stream would wait for the rest
	}
	return err
}

func (s *stream) CloseSend() error {
	s.sending.Lock()
	defer s.sending.Unlock()
	s.closed = true
	return s.current().CloseSend()
}

func (s *stream) RecvMsg(m any) error {
	err := s.recv(m)
	switch {
	case err == io.EOF, err == nil && s.one:
		s.c.end(nil)
	case err != nil:
		s.c.end(err)
	}
	return err
}

func (s *stream) recv(m any) error {
	for {
		err := s.current().RecvMsg(m)
		if err == io.EOF && s.c.unclear() { // that of a write, when gRPC repeated it; the stream's own is read after it
			err = s.current().RecvMsg(m)
		}
		if err != nil {
			s.c.ended(err)
		}
		switch {
		case err == nil || err == io.EOF:
			s.firstAnswer()
			return err
		case s.answered.Load() || !s.c.again(err):
			return s.c.explain(err)
		}
		if err := s.restart(err); err != nil {
			return err
		}
	}
}

// firstAnswer notes that the instance has spoken.
func (s *stream) firstAnswer() {
	if s.answered.Load() || s.answered.Swap(true) {
		return
	}
	md, _ := s.current().Header() // it is here: a message has come after it
	s.c.answered(md[keyLeaving])
	// Whoever sends may be waiting for the server to read on, and the server for this side: he isn't waited for.
	// What is kept then goes with the next message.
	if s.sending.TryLock() {
		s.kept = nil
		s.sending.Unlock()
	}
}

// restart opens the stream anew and sends again what was sent: beside whoever reads, since the server may answer before
// it reads all of it, and wait for its answers to be read. It ends with the stream at the latest.
func (s *stream) restart(failed error) error {
	s.sending.Lock()
	if s.final {
		s.sending.Unlock()
		s.c.giveUp(errReplay)
		return s.c.explain(failed)
	}
	cs, err := s.opened()
	if err != nil {
		s.sending.Unlock()
		return err
	}
	s.now.Store(&cs)
	kept, closed := s.kept, s.closed
	go func() {
		defer s.sending.Unlock()
		for _, m := range kept {
			if err := cs.SendMsg(m); err != nil {
				break // RecvMsg says why
			}
		}
		if closed {
			_ = cs.CloseSend() // likewise
		}
	}()
	return nil
}

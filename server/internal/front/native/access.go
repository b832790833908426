package native

import (
	"context"
	"net"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/access"
	"github.com/eiderhq/eider/server/internal/replica"
)

// Who is at the other end is asked once a stream, as it opens; no message costs anything for it.

// known is a stream whose identity is known: its context carries it.
type known struct {
	grpc.ServerStream
	ctx context.Context
}

// Context returns the stream's context, with who opened it.
func (k known) Context() context.Context { return k.ctx }

// knownAs is the key under which a stream's context carries its [access.Identity].
type knownAs struct{}

// identified finds out who opens a stream, and ends it if nobody may.
func (s *Server) identified(srv any, rpc grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	who, err := s.who(rpc.Context())
	if err != nil {
		s.cfg.Audit.Denied(nil, from(rpc.Context()), "open "+info.FullMethod, err)
		return statusOf(err)
	}
	return next(srv, known{rpc, context.WithValue(rpc.Context(), knownAs{}, who)})
}

func (s *Server) who(ctx context.Context) (*access.Identity, error) {
	token := ""
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		if values := md.Get("authorization"); len(values) > 0 {
			token, _ = strings.CutPrefix(values[0], "Bearer ")
		}
	}
	p, ok := peer.FromContext(ctx)
	if !ok {
		return s.cfg.Guard.Identify(token, nil)
	}
	info, _ := p.AuthInfo.(credentials.TLSInfo)
	return s.cfg.Guard.Identify(token, s.cfg.Certs.Verified(&info.State))
}

// identityOf returns who opened a stream; nil where nobody is asked.
func identityOf(ctx context.Context) *access.Identity {
	who, _ := ctx.Value(knownAs{}).(*access.Identity)
	return who
}

// from is where a stream comes from, for people.
func from(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return "somewhere"
	}
	if host, _, err := net.SplitHostPort(p.Addr.String()); err == nil {
		return host
	}
	return p.Addr.String()
}

// deny tells of a role that a stream's identity lacks.
func (st *stream) deny(op, role string) error {
	err := access.Denial(op, st.who, role)
	st.srv.cfg.Audit.Denied(st.who, from(st.rpc.Context()), op, err)
	return err
}

// Recheck ends the streams of those who are no longer what they were when they came: their token was revoked or
// has expired, or their roles have changed. They show it anew; nobody is suspected for it.
func (s *Server) Recheck() {
	if s.cfg.Guard == nil {
		return
	}
	s.mu.Lock()
	var over []*stream
	for st := range s.streams {
		if !s.cfg.Guard.Still(st.who) {
			over = append(over, st)
		}
	}
	s.mu.Unlock()
	for _, st := range over {
		st.end(changed(st))
	}
}

func changed(st *stream) *ending {
	return &ending{how: replica.Moving, reattach: true,
		err: eider.Errorf(eider.Unavailable, "", "what %s may do has changed; come back and show it again", st.who)}
}

// outdated ends a stream whose identity has changed between being asked for and being entered: no Recheck saw it.
func (s *Server) outdated(st *stream) *ending {
	if s.cfg.Guard == nil || s.cfg.Guard.Still(st.who) {
		return nil
	}
	return changed(st)
}

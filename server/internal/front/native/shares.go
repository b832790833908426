package native

import (
	"fmt"
	"sync"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/access"
)

// shares bound what one identity takes, so that a token in a loop, or in a stranger's hands, leaves room for the
// others. Who isn't asked who he is has no share of his own: the limits of the node and of connections bound him.
type shares struct {
	limits Limits

	mu  sync.Mutex
	has map[string]*share
}

// share is one identity's, as long as it has a stream.
type share struct {
	name                        string
	streams, callers, instances int
	register                    *admission
}

func newShares(l Limits) *shares { return &shares{limits: l, has: map[string]*share{}} }

// open counts a stream in. The share is nil for who isn't asked who he is.
func (s *shares) open(who *access.Identity) (*share, error) {
	if who == nil {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.has[who.String()]
	if sh == nil {
		sh = &share{name: who.String(), register: newAdmission(s.limits.IdentityRegister)}
		s.has[sh.name] = sh
	}
	if sh.streams >= s.limits.IdentityStreams {
		return nil, s.full(sh, sh.streams, "streams")
	}
	sh.streams++
	return sh, nil
}

// follow and list count a caller and an instance in; nil is nobody's share.
func (s *shares) follow(sh *share) error {
	return s.take(sh, func() *int { return &sh.callers }, s.limits.IdentityCallers, "callers")
}

func (s *shares) list(sh *share) error {
	return s.take(sh, func() *int { return &sh.instances }, s.limits.IdentityInstances, "instances")
}

func (s *shares) take(sh *share, of func() *int, most int, what string) error {
	if sh == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := of(); *n < most {
		*n++
		return nil
	}
	return s.full(sh, most, what)
}

// close gives back what a stream had taken.
func (s *shares) close(sh *share, callers, instances int) {
	if sh == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sh.streams--
	sh.callers -= callers
	sh.instances -= instances
	if sh.streams == 0 {
		delete(s.has, sh.name)
	}
}

// give gives back one instance of a stream that goes on.
func (s *shares) give(sh *share) {
	if sh == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sh.instances--
}

func (s *shares) full(sh *share, n int, what string) error {
	return &eider.Error{Kind: eider.Limited, RetryAfter: jitter(retryShare),
		Err: fmt.Errorf("%s has %d %s, the most that one identity may; give processes tokens of their own, or raise --max-identity-%s", sh.name, n, what, what)}
}

package wire

import (
	"errors"
	"fmt"
	"time"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
)

// Times of a verdict travel as distances from now: nobody's clock has to agree with another's.

// FromVerdict writes a verdict on an instance of the service at hand.
func FromVerdict(v *eider.Verdict, now time.Time) *pb.Verdict {
	m := &pb.Verdict{Id: v.ID, Nonce: v.Incarnation.Nonce, State: pb.BreakerState(v.State), Rule: pb.BreakerRule(v.Rule), Count: v.Count, Of: v.Of}
	if !v.Since.IsZero() {
		m.SinceMs = FromDuration(now.Sub(v.Since))
	}
	if !v.Retry.IsZero() {
		m.RetryMs = FromDuration(v.Retry.Sub(now))
	}
	return m
}

// ToVerdict reads a verdict on an instance of the service. One without an id or a nonce names nobody, and of a state
// that isn't known nothing can be shown: both are errors. A rule that isn't known is none.
func ToVerdict(m *pb.Verdict, service string, now time.Time) (eider.Verdict, error) {
	if err := eider.CheckID(m.GetId()); err != nil {
		return eider.Verdict{}, err
	}
	if m.GetNonce() == 0 {
		return eider.Verdict{}, errors.New("verdict: the nonce is missing")
	}
	if s := m.GetState(); s < 0 || int(s) >= eider.BreakerStates {
		return eider.Verdict{}, fmt.Errorf("verdict: state %d is unknown here", s)
	}
	v := eider.Verdict{Key: eider.Key{Service: service, ID: m.GetId()}, Incarnation: eider.Incarnation{Nonce: m.GetNonce()},
		Breaker: eider.Breaker{State: eider.BreakerState(m.GetState()), Count: m.GetCount(), Of: m.GetOf(), Since: now.Add(-ToDuration(m.GetSinceMs()))}}
	if r := m.GetRule(); r >= 0 && int(r) < eider.BreakerRules {
		v.Rule = eider.BreakerRule(r)
	}
	if ms := m.GetRetryMs(); ms != 0 {
		v.Retry = now.Add(ToDuration(ms))
	}
	return v, nil
}

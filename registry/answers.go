package registry

import (
	"math/rand/v2"
	"time"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/internal/wire"
	"github.com/eiderhq/eider/retry"
)

const (
	staleTries  = 3           // how many higher attachments an incarnation that only wants to end tries
	grantWithin = greetAtMost // from a registration to its answer while beats are answered; without one the stream is stuck
)

// due appends what the node is to be told of this listing now, and says when to look again. Called with a.mu held.
func (l *Listing) due(say []*pb.AttachRequest, now time.Time) ([]*pb.AttachRequest, time.Time) {
	if now.Before(l.retryAt) && l.phase != asked {
		return say, l.retryAt
	}
	switch l.phase {
	case apart, refused:
		if l.leaving != nil && !l.uttered {
			return say, time.Time{} // a stopped listing is never begun
		}
		if err := l.prepare(l.a.ends); err != nil {
			l.hesitate(err, now)
			return say, l.retryAt
		}
		return append(say, l.register(now)), l.answerBy
	case listed:
		return l.changes(say), time.Time{}
	default: // asked: its answer rings, or see mute
		return say, l.answerBy
	}
}

// mute is why the stream is stuck, nil if it isn't: it answers beats and never said what became of the registration.
// Beats are all that [session] waits for, so that this process would be unlisted for ever and believe itself about to
// be. Called with a.mu held.
func (l *Listing) mute(now time.Time) error {
	if l.phase != asked || now.Before(l.answerBy) {
		return nil
	}
	return eider.Errorf(eider.Unavailable, "register "+l.rec.Key.String(), "no answer came within %s of asking; the stream was cut", grantWithin)
}

// register attaches, with an attachment higher than ever before.
func (l *Listing) register(now time.Time) *pb.AttachRequest {
	l.phase, l.told = asked, told{status: l.status}
	l.answerBy = now.Add(grantWithin)
	l.uttered = true
	l.rec.Attachment++
	rec := l.rec
	rec.Status = l.status
	if l.leaving != nil {
		rec.Status = eider.Draining
	}
	return &pb.AttachRequest{Kind: &pb.AttachRequest_Register{Register: &pb.Register{
		Record: wire.FromRecord(&rec), LeaseMs: wire.FromDuration(l.lease), Secret: l.secret}}}
}

// changes appends what is wanted and wasn't told yet.
func (l *Listing) changes(say []*pb.AttachRequest) []*pb.AttachRequest {
	service, id := l.rec.Service, l.rec.ID
	if l.leaving == nil {
		if l.told.status != l.status {
			l.told.status = l.status
			say = append(say, &pb.AttachRequest{Kind: &pb.AttachRequest_SetStatus{SetStatus: &pb.SetStatus{
				Service: service, Id: id, Status: wire.FromStatus(l.status)}}})
		}
		return say
	}
	if unknown := l.leaving.unknowns(); !l.told.leave || unknown != l.told.unknown { // said again if the unknown come later
		l.told.leave, l.told.unknown = true, unknown
		say = append(say, &pb.AttachRequest{Kind: &pb.AttachRequest_Leave{Leave: &pb.Leave{Service: service, Id: id, UnknownMs: wire.FromDuration(unknown)}}})
	}
	if l.left && !l.told.left {
		l.told.left = true
		say = append(say, &pb.AttachRequest{Kind: &pb.AttachRequest_Left{Left: &pb.Left{Service: service, Id: id}}})
	}
	return say
}

// registered takes the node's consent. One to an earlier attachment came late and says nothing. Called with a.mu held.
func (l *Listing) registered(m *pb.Registered, now time.Time) {
	if m.GetAttachment() != l.rec.Attachment || l.phase == apart {
		return
	}
	l.phase = listed
	l.listedAt, l.retryAt = now, time.Time{}
	l.rec.Incarnation.Number = max(l.rec.Incarnation.Number, m.GetNumber())
	if secret := m.GetSecret(); len(secret) == len(l.secret) {
		l.secret = secret
	}
	l.state.In = l.rec.Incarnation
	if l.leaving != nil {
		l.leaving.drain.Departure = l.rec.Departure()
	}
	l.push(wire.ToDuration(m.GetBoundMs()))
	l.set(true, nil)
	l.a.reg.log.Info("listed", "instance", l.rec.Key.String(), "incarnation", l.rec.Incarnation.String(), "attachment", l.rec.Attachment)
}

// bound takes a bound that changed. Called with a.mu held.
func (l *Listing) bound(d time.Duration) {
	l.push(d)
	l.announce()
}

func (l *Listing) push(bound time.Duration) {
	l.state.Bound = bound
	if l.leaving != nil {
		l.leaving.bound(bound)
	}
}

// refuse takes the node's refusal, of a registration or of what was said after it. Called with a.mu held.
func (l *Listing) refuse(err error, now time.Time) {
	if err == nil {
		err = eider.Errorf(eider.Internal, "", "the registry refused it and didn't say why")
	}
	switch l.phase {
	case asked:
		if l.settled(err) {
			l.finish()
			return
		}
		if l.outlived(err) {
			l.rec.Incarnation, l.rec.Attachment, l.secret = eider.Incarnation{Nonce: nonce()}, 0, secret()
			l.state.In = l.rec.Incarnation
		}
		l.hesitate(err, now)
	case listed:
		if kind := eider.KindOf(err); kind == eider.Stale || kind == eider.NotFound {
			l.hesitate(err, now) // it isn't known there as this: attach anew
			return
		}
		l.delay(err, now)
		l.told = told{} // which of them was refused isn't said; all of them may be said again
	default: // of something said before a refusal that was taken already
	}
}

// outlived tells whether somebody has taken this incarnation's place for good: a higher attachment was called stale
// as well. A process that lives on all the same (it was paused, and its successor has come and gone) is a
// new incarnation from then on, or it would serve unlisted for ever (R9). One that is leaving stays gone (D16).
func (l *Listing) outlived(err error) bool {
	return eider.KindOf(err) == eider.Stale && l.leaving == nil && l.tries > 0
}

// settled tells whether a refusal leaves nothing to be ended: a listing that only wants to end isn't
// there, since somebody else is, or since the node never takes it.
func (l *Listing) settled(err error) bool {
	if !l.left {
		return false
	}
	switch eider.KindOf(err) {
	case eider.Conflict, eider.Invalid:
		return true
	case eider.Stale:
		return l.tries >= staleTries
	default:
		return false
	}
}

// hesitate puts the next registration off, and says why it isn't listed.
func (l *Listing) hesitate(err error, now time.Time) {
	l.phase = refused
	l.delay(err, now)
	why := &eider.Error{Op: "register " + l.rec.Key.String(), Kind: eider.KindOf(err), Err: err}
	if l.state.Listed || l.state.Err == nil || l.state.Err.Error() != why.Error() {
		l.a.reg.log.Warn("not listed; it is tried again for ever", "instance", l.rec.Key.String(), "error", err)
		l.set(false, why)
	}
}

// delay draws when to try again, at least when the node said so. What lasted for a while begins anew.
func (l *Listing) delay(err error, now time.Time) {
	if !l.listedAt.IsZero() && now.Sub(l.listedAt) >= steadyAfter {
		l.tries = 0
	}
	l.listedAt = time.Time{}
	backoff := retry.Backoff{Base: 100 * time.Millisecond, Max: 5 * time.Second} // for what may pass by itself
	if kind := eider.KindOf(err); kind == eider.Invalid || kind == eider.Denied {
		backoff = retry.Backoff{Base: 5 * time.Second, Max: time.Minute} // for what somebody has to mend
	}
	rnd := rand.Float64()
	l.retryAt = now.Add(atLeast(err, backoff.Delay(l.tries, rnd), rnd))
	l.tries++
}

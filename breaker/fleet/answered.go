package fleet

import "github.com/eiderhq/eider/breaker"

// Own is the permit of a breaker that is no fleet's, for who has the one or the other.
func Own(p breaker.Permit) Permit { return Permit{local: p} }

// Probes tells whether the call is a trial, be it the fleet's one or one of the caller's own breaker.
func (p Permit) Probes() bool { return p.trial != nil || p.local.Trial() }

// Answered tells that the call's answer has begun, and returns the permit that ends it from now on: however long the rest
// takes, a download, a stream, the call isn't slow. The fleet's trial is settled with it. What comes after a permit that is zero then
// is for [Breaker.Report].
func (p Permit) Answered() Permit {
	if p.trial != nil {
		p.trial.settle(breaker.Success)
		return p
	}
	return Permit{local: p.local.Answered()}
}

// Report counts on the caller's own breaker an outcome that belongs to no permit: a body that broke off after the call had
// ended well.
func (b *Breaker) Report(o breaker.Outcome) { b.local.Report(o) }

// Late gives back the permit of a call that isn't made because it isn't [Permit.Live] any more, and returns what the caller gets
// instead, a [*breaker.Rejected]. It is for trials.
func (p Permit) Late() error { return p.trial.late() }

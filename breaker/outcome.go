package breaker

import (
	"context"
	"errors"
	"time"
)

// Outcome is what a call says of its target.
type Outcome uint8

const (
	Success Outcome = iota // it answered; slow ones count as slow besides
	Failure                // it failed
	Neutral                // the call says nothing of it: nothing is counted, a trial is offered again
	Refused                // nobody is there: a Failure that opens it at once, whatever the rules
)

func (o Outcome) String() string {
	switch o {
	case Success:
		return "success"
	case Failure:
		return "failure"
	case Refused:
		return "refused"
	default:
		return "neutral"
	}
}

// Judge tells what an error says of the target, for those who hold no Config to ask: a nil is a Success, a rejection of a
// breaker or of a bulkhead is Neutral, for the target never saw the call, and so is what comes of the caller's own
// cancelling, whatever the error says. A deadline of the caller's is a Failure if the call took at least the slow
// limit, and Neutral if it had less, for then it says more of the caller's budget than of the target; with limit 0 it is a
// Failure. Everything else is classify's, and without one a Failure.
func Judge(ctx context.Context, err error, took, limit time.Duration, classify func(error) Outcome) Outcome {
	if err == nil {
		return Success
	}
	if isRejection(err) {
		return Neutral
	}
	switch ctx.Err() {
	case nil:
	case context.DeadlineExceeded:
		if took < limit {
			return Neutral
		}
		return Failure
	default:
		return Neutral
	}
	if classify == nil {
		return Failure
	}
	return classify(err)
}

// A rejection says so of itself, so that a breaker knows those of every guard before the call, whoever wrote it.
type rejection interface {
	error
	Rejection() bool
}

func isRejection(err error) bool {
	r, ok := errors.AsType[rejection](err) // errors.As allocates what it fills
	return ok && r.Rejection()
}

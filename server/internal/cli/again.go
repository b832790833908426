package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/eiderhq/eider/retry"
	"github.com/eiderhq/eider/server/internal/harmless"
)

// again is somebody's patience with a registry that went away.
type again struct {
	attempt int
}

// wait tells once why there is something to wait for, waits, with backoff and jitter, and tells whether
// to try again; false when ctx has ended.
func (g *again) wait(ctx context.Context, a *app, err error) bool {
	if g.attempt == 0 && ctx.Err() == nil {
		fmt.Fprintf(a.Err, "eider: %s\neider: trying again until it answers; Ctrl-C ends this\n", harmless.Text(oneLine(err.Error())))
	}
	timer := time.NewTimer(retry.Backoff{}.Delay(g.attempt, rand.Float64()))
	defer timer.Stop()
	g.attempt++
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// settled is how long a stream must have lasted for its end to be news: one that ends at once is the same
// trouble still.
const settled = 2 * time.Second

// whileFollowing uses event streams one after the other until ctx ends. A registry that was never there
// is an error, one that goes away is waited for.
func (a *app) whileFollowing(ctx context.Context, open func(place string) (*following, error), use func(*following) error) error {
	var patience again
	place, seen := "", false
	for {
		stream, err := open(place)
		if err == nil {
			seen = true
			began := time.Now()
			err = use(stream)
			stream.close()
			place = stream.id
			if time.Since(began) > settled {
				patience = again{}
			}
		}
		switch {
		case ended(ctx, err):
			return nil
		case !seen || isFailure(err):
			return err
		case !patience.wait(ctx, a, err):
			return nil
		}
	}
}

// frameGap is the least time between two frames: no eye sees more, and a storm of changes isn't worth as
// many questions.
const frameGap = 100 * time.Millisecond

// breathe waits for frameGap or the end of ctx.
func breathe(ctx context.Context) {
	timer := time.NewTimer(frameGap)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// ended tells whether an error only says that the person has ended the command.
func ended(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, context.Canceled) || unreachable(err))
}

// isFailure tells an error that trying again doesn't mend: nobody reads the output anymore.
func isFailure(err error) bool {
	e, ok := errors.AsType[*exit](err)
	return ok && e.code == exitFailure
}

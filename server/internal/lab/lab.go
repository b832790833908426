// Package lab shows what Eider promises with real processes: it starts a registry, instances and
// callers, restarts and kills them under load, counts what got lost, and holds the counts against the promise.
package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// Options say what to show.
type Options struct {
	Scenes   []string                   // of Scenes(); nil means rollout and crash
	Requests int                        // rollout goes on until Eider's callers have made so many; 0 means by time
	Short    bool                       // at most 25 s in all
	Surge    bool                       // start the successor before the old instance leaves
	Seed     uint64                     // of every choice; 0 means a random one, which is printed
	JSON     bool                       // print one object and nothing else on Out
	Live     bool                       // Err is a terminal: show a live display there
	Size     func() (width, height int) // of the terminal, asked for each frame; nil means 100 by 40
	Plain    bool                       // no colours
	Binary   string                     // the eider binary to start children from; "" means this one
	Run      Starter                    // what anyprogram starts; nil means Binary, and a child of it as the program
	Out, Err io.Writer
}

// Scenes lists the scenes there are, the default ones first.
func Scenes() []string {
	return []string{"rollout", "crash", "s8", "freeze", "outage", "wedge", "mixed", "hang", "recovery", "anyprogram"}
}

// sceneTimes is how long a scene's load runs.
type sceneTimes struct{ rollout, before, after time.Duration }

func (o *Options) times() sceneTimes {
	if o.Short {
		return sceneTimes{rollout: 8 * time.Second, before: 1500 * time.Millisecond, after: 1500 * time.Millisecond}
	}
	return sceneTimes{rollout: 20 * time.Second, before: 3 * time.Second, after: 4 * time.Second}
}

// ErrOptions says that what is asked for can't be shown.
var ErrOptions = errors.New("it can't be shown")

// ErrPromise says that a promise broke; the result says which.
var ErrPromise = errors.New("a promise broke")

// Run plays the scenes and prints the result. It returns ErrPromise if one broke, another error if a
// scene couldn't be played.
func Run(ctx context.Context, o Options) error {
	if err := o.complete(); err != nil {
		return fmt.Errorf("%w: %w", ErrOptions, err)
	}
	stopping := context.AfterFunc(ctx, func() { fmt.Fprintln(o.Err, "\nstopping every process that was started …") })
	defer stopping()
	start := time.Now()
	result := Result{Seed: o.Seed}
	show := newDisplay(&o)
	for _, name := range o.Scenes {
		var err error
		switch name {
		case "rollout":
			result.Rollout, err = playRollout(ctx, &o, show)
		case "crash":
			result.Crash, err = playCrash(ctx, &o, show)
		case "s8":
			result.S8, err = playS8(ctx, &o, show)
		case "freeze":
			result.Freeze, err = playFreeze(ctx, &o, show)
		case "outage":
			result.Outage, err = playOutage(ctx, &o, show)
		case "wedge":
			result.Wedge, err = playWedge(ctx, &o, show)
		case "mixed":
			result.Mixed, err = playMixed(ctx, &o, show)
		case "hang":
			result.Hang, err = playHang(ctx, &o, show)
		case "recovery":
			result.Recovery, err = playRecovery(ctx, &o, show)
		case "anyprogram":
			result.AnyProgram, err = playAnyProgram(ctx, &o, show)
		}
		show.clear()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("scene %s (seed %d): %w", name, o.Seed, err)
		}
		if !o.JSON {
			result.print(o.Out, name)
		}
	}
	if o.JSON {
		if err := result.writeJSON(o.Out); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(o.Out, "\n%s\n", result.verdict(time.Since(start)))
	}
	if broken := result.Broken(); len(broken) > 0 {
		return fmt.Errorf("%w (seed %d): %s", ErrPromise, o.Seed, strings.Join(broken, "; "))
	}
	return nil
}

func (o *Options) complete() error {
	if len(o.Scenes) == 0 {
		o.Scenes = []string{"rollout", "crash"}
	}
	for _, name := range o.Scenes {
		if !slices.Contains(Scenes(), name) {
			return fmt.Errorf("there is no scene %q; choose from %s", name, strings.Join(Scenes(), ", "))
		}
	}
	if o.Requests < 0 {
		return fmt.Errorf("requests: %d is below 0", o.Requests)
	}
	if o.Seed == 0 {
		o.Seed = uint64(time.Now().UnixNano())
	}
	if o.Binary == "" {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("finding this binary, to start children from: %w", err)
		}
		o.Binary = self
	}
	if o.Out == nil {
		o.Out = os.Stdout
	}
	if o.Err == nil {
		o.Err = os.Stderr
	}
	return nil
}

package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"
)

// The ways to leave that the lab compares.
const (
	wayEider       = "eider"    // drain.Serve and eiderhttp
	wayPlain       = "plain"    // the process ends at SIGTERM, Go's default
	wayGraceful    = "graceful" // deregister, Shutdown
	waySleep       = "sleep"    // deregister, serve on for 5 s, Shutdown
	wayPoller      = "poller"   // a caller that says how it polls the list
	wayUnknown     = "unknown"  // a caller that says nothing
	wayPinned      = "pinned"   // one whose calls stay on the connection that it has, as behind a virtual address
	wayRun         = "run"      // a program that knows nothing of Eider, under eider run
	wayFront       = "front"    // the same behind eider run --front
	usualPause     = 5 * time.Second
	usualRefresh   = time.Second     // callers of the usual ways re-read their list so often, and pollers
	pollerEvery    = 2 * time.Second // what pollers say: the longest time between two lists, not the usual one
	unknownRefresh = 3 * time.Second
)

// role is what a child is told, as one JSON argument.
type role struct {
	Play     string        `json:"play"` // instance, program, caller, crowd or front
	Way      string        `json:"way"`
	Service  string        `json:"service"`
	ID       string        `json:"id"`
	GRPC     string        `json:"grpc"`
	HTTP     string        `json:"http"`
	Work     time.Duration `json:"work"`              // an instance's handler takes so long; a caller's failure costs it as much
	Think    time.Duration `json:"think"`             // a caller waits so long between calls, on average; uniform from 0 to twice that
	Header   time.Duration `json:"header,omitempty"`  // a caller of Eider's waits so long for an answer's header; 0 means the default
	Rosters  string        `json:"rosters,omitempty"` // the folder in which a caller of Eider's keeps its lists; "" means that it keeps none
	To       string        `json:"to,omitempty"`      // the address that another caller calls, without any list
	At       string        `json:"at,omitempty"`      // where a program listens
	Witness  bool          `json:"witness,omitempty"` // a caller of Eider's tells what its roster holds
	Keyed    int           `json:"keyed,omitempty"`   // of so many calls of a caller one has an Idempotency-Key, and so may be sent again
	Crowd    int           `json:"crowd,omitempty"`   // so many callers in one process, each of which keeps a journal
	Seed     uint64        `json:"seed"`
	LogLevel slog.Level    `json:"log,omitempty"`
}

// Child plays one role until its standard input closes; it is what `eider demo child` runs.
func Child(ctx context.Context, text string, stdin io.Reader, stdout io.Writer) error {
	var r role
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return fmt.Errorf("demo child: its one argument is the lab's own JSON: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the process: a read of standard input can't be interrupted
		_, _ = io.Copy(io.Discard, stdin)
		if r.Play == "instance" || r.Play == "program" {
			os.Exit(0) // the lab is over; nobody is left to drain for
		}
		cancel()
	}()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: max(r.LogLevel, slog.LevelWarn)}))
	tell := newTeller(stdout)
	switch r.Play {
	case "instance":
		return playInstance(ctx, r, tell, log)
	case "program":
		return playProgram(ctx, r)
	case "caller":
		return playCaller(ctx, r, tell, log)
	case "crowd":
		return playCrowd(ctx, r, tell, log)
	case "front":
		return playFront(ctx, r, tell, log)
	}
	return fmt.Errorf("demo child: nobody plays %q", r.Play)
}

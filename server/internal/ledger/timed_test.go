package ledger

import (
	"fmt"
	"strconv"
	"time"

	"github.com/eiderhq/eider"
)

// timed are the words of stories about callers that are waited for by time, and about work.
var timed = map[string]func(w *world, args []string) error{
	"poll": func(w *world, a []string) error { // poll NAME SERVICE EVERY CACHE
		every, err := time.ParseDuration(a[2])
		if err != nil {
			return err
		}
		cache, err := time.ParseDuration(a[3])
		if err != nil {
			return err
		}
		fx, err := w.tb.Poll(w.now, Polling{Caller: a[0], Service: a[1], Every: every, Cache: cache}, 1)
		w.saw(fx)
		return err
	},
	"work": func(w *world, a []string) error { // work PROCESS KEY ARRIVED COMPLETED ENDED [SLOWEST] [unknown]
		var done eider.Work
		for i, at := range []*uint64{&done.Arrived, &done.Completed, &done.Ended} {
			*at, _ = strconv.ParseUint(a[2+i], 10, 64)
		}
		for _, more := range a[5:] {
			if more == "unknown" {
				done.Unknown = true
				continue
			}
			done.Slowest, _ = time.ParseDuration(more)
		}
		w.saw(w.tb.Work(w.now, w.actor(a[0]).session, key(a[1]), done))
		return nil
	},
	"leavefor": func(w *world, a []string) error { // leavefor PROCESS KEY PAUSE: with unknown callers
		pause, err := time.ParseDuration(a[2])
		if err != nil {
			return err
		}
		fx, err := w.tb.Leave(w.now, w.actor(a[0]).session, key(a[1]), pause)
		w.saw(fx)
		return err
	},
	"bound": func(w *world, a []string) error {
		fmt.Fprintf(&w.log, "  %s\n", w.tb.Bound(a[0]))
		return nil
	},
}

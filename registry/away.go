package registry

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"time"
)

// What is said while a registry is away, or doesn't list what it should: nobody serves on, unlisted, without a
// word (R9).

// remindEvery is how often a process says that it isn't listed.
const remindEvery = time.Minute

// errHTTPPort is the likeliest reason why a port answers in HTTP/1.
var errHTTPPort = errors.New("that is an HTTP port, as a registry's own is; programs use its gRPC port, 8762 by default: see Config.Addr and EIDER_ADDR")

// inWords makes an error of what gRPC says. It has these words alone for a port that has answered in HTTP/1.
func inWords(message string) error {
	if strings.Contains(message, "error reading server preface") &&
		(strings.Contains(message, "HTTP/1") || strings.Contains(message, "frame too large")) {
		return errHTTPPort
	}
	if why := unsecured(message); why != "" {
		return errors.New(why)
	}
	return errors.New(message)
}

// missing says that a stream has no registry to go to; met tells whether it ever had.
func (r *Registry) missing(what string, met bool, err error) string {
	if met {
		return "registry is away: what was heard last stays, and it is tried again for ever"
	}
	until := map[string]string{"attach": "not listed until then", "watch": "nobody is known to call until then", "observe": "nothing is known until then"}[what]
	at := strings.Join(r.links.addrs, " or ")
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Sprintf("no registry at %s yet: start one with `eider server` or set EIDER_ADDR; %s", at, until)
	}
	return fmt.Sprintf("no registry is reached at %s yet; %s", at, until)
}

func backAgain(met bool) string {
	if met {
		return "registry is back"
	}
	return "registry is there"
}

// remind says, once a minute at most, that instances aren't listed, since when and why. It is called every few
// seconds, without a lock.
func (a *attacher) remind() {
	a.mu.Lock()
	msg, attrs := a.reminder(time.Now())
	a.mu.Unlock()
	if msg != "" {
		a.reg.log.Warn(msg, attrs...)
	}
}

// reminder is the line that is due, "" for none. Called with a.mu held.
func (a *attacher) reminder(now time.Time) (msg string, attrs []any) {
	if now.Sub(a.saidAt) < remindEvery {
		return "", nil
	}
	var first *Listing
	n := 0
	for _, l := range a.listings {
		if l.state.Listed || l.leaving != nil || now.Sub(l.state.Since) < remindEvery {
			continue
		}
		if n++; first == nil || l.state.Since.Before(first.state.Since) {
			first = l
		}
	}
	if first == nil {
		return "", nil
	}
	a.saidAt = now
	attrs = []any{slog.String("instance", strings.TrimSuffix(first.rec.Key.String(), "/")), slog.Any("error", first.state.Err)}
	if n > 1 {
		attrs = append(attrs, slog.Int("and_others", n-1))
	}
	return "not listed since " + first.state.Since.Format(time.TimeOnly) + "; it is tried again for ever", attrs
}

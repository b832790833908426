package console

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/replica"
)

// Who fetches a view now and then and calls who is in it may say so: ?caller=ID&every=10s&cache=5s. He then counts,
// by his timers. Without caller= he observes.

// nextPoll is the header that says in how many seconds to poll again: no later than the caller has said, and spread,
// so that a fleet that was started at once doesn't ask at once for ever.
const nextPoll = "Eider-Next-Poll"

// maxCaller bounds a caller's name, in bytes; the native front has the same.
const maxCaller = 256

// polling is how a caller says that it polls.
type polling struct {
	caller       string // "" for an observer
	every, cache time.Duration
}

func (p *polling) set(name, value string) (err error) {
	switch name {
	case "caller":
		p.caller = value
		if n := len(value); n == 0 || n > maxCaller || !printable(value) {
			err = fmt.Errorf("caller: %.40q must have 1 to %d bytes of printable UTF-8, it has %d; use one for each process, as in checkout@host-1", value, maxCaller, n)
		}
	case "every":
		p.every, err = timer(name, value, time.Millisecond)
	case "cache":
		p.cache, err = timer(name, value, 0)
	}
	return err
}

func timer(name, value string, least time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d < least || d > replica.MaxPoll {
		return 0, fmt.Errorf("%s: %.40q must be a duration from %s to %s, as in 10s", name, value, least, replica.MaxPoll)
	}
	return d, nil
}

// missing tells what a caller has left out.
func (p *polling) missing(query url.Values) (errs []error) {
	switch {
	case query.Has("caller") && !query.Has("every"):
		errs = append(errs, errors.New("every: missing; a caller counts by its timers: say how often you poll, as in every=10s, and cache=5s if you go on using an older list for so long"))
	case !query.Has("caller") && (query.Has("every") || query.Has("cache")):
		errs = append(errs, errors.New("caller: missing; every and cache are a caller's: name it, as in caller=checkout@host-1"))
	}
	return errs
}

func printable(s string) bool {
	for _, r := range s {
		if !strconv.IsPrint(r) || r == '\uFFFD' {
			return false
		}
	}
	return true
}

// poll answers a caller that polls. 304 counts like any other answer: what it has is what it would get. But it is
// given only for an exact cursor, since a view may hold a leave that has no number yet.
func (c *console) poll(w http.ResponseWriter, r *http.Request, service string, p params) {
	if c.pollers == nil {
		failWith(w, eider.Errorf(eider.Invalid, "", "caller: this node can't count callers that poll; ask without it"))
		return
	}
	word := replica.Poll{Caller: p.caller, Service: service, Every: p.every + p.wait, Cache: p.cache, Waits: p.wait > 0, Addr: addrOf(r.RemoteAddr)}
	if who := whoAsks(r); who != nil {
		word.Identity = who.String()
	}
	has := r.Header.Values("If-None-Match")
	v, exact, err := c.pollers.Poll(word)
	if err == nil && exact && p.wait > 0 && matches(has, etag(v)) {
		if err = c.awaitCounted(w, r, v, p.wait); err == nil {
			v, exact, err = c.pollers.Poll(word)
		}
	}
	if err != nil {
		c.failPoll(w, service, err)
		return
	}
	h := w.Header()
	h.Set("Cache-Control", "no-cache")
	h.Set(nextPoll, strconv.FormatFloat(p.every.Seconds()*(1-rand.Float64()/4), 'f', 3, 64))
	if exact {
		h.Set("ETag", etag(v))
		if matches(has, etag(v)) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	c.writeView(w, v, p)
}

// awaitCounted waits for a view that isn't the one given, as one of the waiting requests.
func (c *console) awaitCounted(w http.ResponseWriter, r *http.Request, was *eider.View, wait time.Duration) error {
	release, err := c.admit()
	if err != nil {
		return err
	}
	defer release()
	_, _, err = c.await(w, r, was, wait)
	return err
}

// failPoll tells what is wrong; who is to come back later isn't told the same time as all the others.
func (c *console) failPoll(w http.ResponseWriter, service string, err error) {
	var e *eider.Error
	switch {
	case eider.KindOf(err) == eider.NotFound:
		err = c.noService(service)
	case errors.As(err, &e) && e.RetryAfter > 0:
		later := *e
		later.RetryAfter += time.Duration(0.3 * rand.Float64() * float64(e.RetryAfter))
		err = &later
	}
	failWith(w, err)
}

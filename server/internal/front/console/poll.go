package console

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
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

// poll answers a caller that polls. 304 is given only for an exact cursor, since a view may hold a leave that has no
// number yet. A tag names the answer too, and not the view alone: shown again, it tells that this answer has arrived,
// and none that another process of that name was given. So no cache that is shared may keep it: it would show tags of its own.
func (c *console) poll(w http.ResponseWriter, r *http.Request, service string, p params) {
	if c.pollers == nil {
		failWith(w, eider.Errorf(eider.Invalid, "", "caller: this node can't count callers that poll; ask without it"))
		return
	}
	word := replica.Poll{Caller: p.caller, Service: service, Every: p.every + p.wait, Cache: p.cache, Addr: addrOf(r.RemoteAddr)}
	if who := whoAsks(r); who != nil {
		word.Identity = who.String()
	}
	has := r.Header.Values("If-None-Match")
	word.Run, word.Has = answered(has)
	views := viewsOf(has)
	a, err := c.pollers.Poll(word)
	if err == nil && a.Exact && p.wait > 0 && matches(views, etag(a.View)) {
		if err = c.awaitCounted(w, r, a.View, p.wait); err == nil {
			a, err = c.pollers.Poll(word)
		}
	}
	if err != nil {
		c.failPoll(w, service, err)
		return
	}
	h := w.Header()
	h.Set("Cache-Control", "private, no-cache")
	h.Set(nextPoll, strconv.FormatFloat(p.every.Seconds()*(1-rand.Float64()/4), 'f', 3, 64))
	if a.Exact && matches(views, etag(a.View)) {
		tag := etag(a.View)
		if word.Has > 0 {
			tag = has[0] // it is given nothing newer, so that the tag which it has goes on telling what it has
		}
		h.Set("ETag", tag)
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("ETag", answerTag(&a))
	c.writeView(w, a.View, p)
}

// answerMark stands in a tag before the number of an answer.
const answerMark = "~"

// answerTag names a view and the answer with which it was given: "5f3a:7~12". What no cursor names is "5f3a:7+~12",
// which is no view's tag, so that 304 is never said about it.
func answerTag(a *replica.Answer) string {
	view := strings.TrimSuffix(etag(a.View), `"`)
	if !a.Exact {
		view += "+"
	}
	return view + answerMark + strconv.FormatUint(a.Number, 10) + `"`
}

// answered returns the answer that a caller shows to have, and the run of the node that gave it. Only the very tag
// that was given shows one: not a list of them, nor a weak one, which somebody on the way has made of it.
func answered(headers []string) (run, answer uint64) {
	if len(headers) != 1 {
		return 0, 0
	}
	tag, quoted := strings.CutPrefix(headers[0], `"`)
	tag, closed := strings.CutSuffix(tag, `"`)
	view, number, marked := strings.Cut(tag, answerMark)
	of, _, numbered := strings.Cut(view, ":")
	run, errRun := strconv.ParseUint(of, 16, 64)
	answer, errAnswer := strconv.ParseUint(number, 10, 64)
	if !quoted || !closed || !marked || !numbered || errRun != nil || errAnswer != nil {
		return 0, 0
	}
	return run, answer
}

// viewsOf takes the answers out of tags: what is left names views.
func viewsOf(headers []string) []string {
	out := make([]string, len(headers))
	for i, header := range headers {
		tags := strings.Split(header, ",")
		for j, tag := range tags {
			if view, _, marked := strings.Cut(tag, answerMark); marked {
				tags[j] = view + `"`
			}
		}
		out[i] = strings.Join(tags, ",")
	}
	return out
}

// awaitCounted waits for a view that isn't the one given, as one of the waiting requests.
func (c *console) awaitCounted(w http.ResponseWriter, r *http.Request, was *eider.View, wait time.Duration) error {
	release, err := c.admit()
	if err != nil {
		return err
	}
	defer release()
	if _, _, err = c.await(w, r, was, wait); err == nil && r.Context().Err() != nil {
		err = eider.Errorf(eider.Unavailable, "", "the caller went away while it waited, and fetches nothing")
	}
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

package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eiderhq/eider"
)

// place is where somebody stands in a node run's events: every event up to it is known to them.
type place struct {
	run uint64
	seq uint64
}

func (p place) String() string { return hex(p.run) + "-" + strconv.FormatUint(p.seq, 10) }

// parsePlace reads what String writes, or a bare number, which is of this run. A place in another run is
// no place in this one: everything kept is news.
func parsePlace(name, text string, run uint64) (at place, sameRun bool, err error) {
	prefix, number, both := strings.Cut(text, "-")
	if !both {
		prefix, number = hex(run), text
	}
	of, errRun := strconv.ParseUint(prefix, 16, 64)
	seq, errSeq := strconv.ParseUint(number, 10, 64)
	if errRun != nil || errSeq != nil {
		return place{}, false, fmt.Errorf("%s: %.40q must be an event's number, or RUN-NUMBER as the stream's ids are", name, text)
	}
	if of != run {
		return place{run, 0}, false, nil
	}
	return place{run, seq}, true, nil
}

// reading is one request for events under way.
type reading struct {
	params
	at    place
	fresh bool // nothing was read yet and no place was asked for: what is no longer kept isn't missed
	tail  bool // a ?last= has yet to be applied
	lost  bool // events after the place are no longer kept, and the asker hasn't been told
}

func (c *console) events(w http.ResponseWriter, r *http.Request) {
	rd := reading{at: place{run: c.reg.Node().Run}}
	var err error
	if rd.params, err = read(r, "service", "after", "last", "limit"); err == nil {
		err = rd.begin(r)
	}
	if err != nil {
		failWith(w, err)
		return
	}
	if wantsStream(r) {
		c.stream(w, r, &rd)
		return
	}
	news, more := c.take(&rd, rd.limit)
	list, err := page(news, rd.limit, c.cfg.MaxBytes)
	if err != nil {
		failWith(w, err)
		return
	}
	if len(list) < len(news) {
		more, rd.at.seq = true, news[len(list)-1].Seq
	}
	writeJSON(w, http.StatusOK, struct {
		Now    time.Time         `json:"now"` // by the node's clock
		Events []json.RawMessage `json:"events"`
		Lost   bool              `json:"lost"` // some before these are no longer kept
		Last   string            `json:"last"` // go on with ?after= this
		More   bool              `json:"more"` // there are some now
	}{time.Now(), list, rd.lost, rd.at.String(), more})
}

// begin finds the place to read from. Last-Event-ID is what an EventSource says when it comes back, with
// the URL that it began with, so it wins.
func (rd *reading) begin(r *http.Request) (err error) {
	name, text := "after", rd.after
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		name, text, rd.last = "Last-Event-ID", id, -1
	}
	if text != "" && rd.last >= 0 {
		return invalid(errors.New("after and last: give one of them"))
	}
	rd.fresh, rd.tail = text == "", rd.last >= 0
	if text == "" {
		return nil
	}
	sameRun := false
	if rd.at, sameRun, err = parsePlace(name, text, rd.at.run); err != nil {
		return invalid(err)
	}
	rd.lost = !sameRun
	return nil
}

// take returns the events after the reading's place that it asks for, at most limit, and moves the place on.
func (c *console) take(rd *reading, limit int) (news []eider.Event, more bool) {
	kept, whole := c.reg.Events(rd.at.seq)
	rd.lost = rd.lost || !whole && !rd.fresh
	rd.fresh = false
	if rd.tail {
		rd.tail = false
		return rd.takeTail(kept), false
	}
	for i := range kept {
		if rd.service == "" || kept[i].Service == rd.service {
			if len(news) == limit {
				return news, true
			}
			news = append(news, kept[i])
		}
		rd.at.seq = kept[i].Seq
	}
	return news, false
}

// takeTail returns the last ones that the reading asks for, and moves its place to the end.
func (rd *reading) takeTail(kept []eider.Event) (news []eider.Event) {
	for i := len(kept) - 1; i >= 0 && len(news) < rd.last; i-- {
		if rd.service == "" || kept[i].Service == rd.service {
			news = append(news, kept[i])
		}
	}
	slices.Reverse(news)
	if len(kept) > 0 {
		rd.at.seq = kept[len(kept)-1].Seq
	}
	return news
}

func wantsStream(r *http.Request) bool {
	for _, accept := range r.Header.Values("Accept") {
		for one := range strings.SplitSeq(accept, ",") {
			kind, _, _ := strings.Cut(one, ";")
			if strings.EqualFold(strings.TrimSpace(kind), "text/event-stream") {
				return true
			}
		}
	}
	return false
}

// admit takes one of the bounded places for requests that stay.
func (c *console) admit() (release func(), err error) {
	select {
	case c.streams <- struct{}{}:
		return func() { <-c.streams }, nil
	default:
		c.metrics.refuse("streams")
		e := eider.Errorf(eider.Limited, "", "%d event streams and waiting requests are open, which is the limit; end one, come back later, or raise --max-http-streams", cap(c.streams))
		e.RetryAfter = 5 * time.Second
		return nil, e
	}
}

// extend gives a request that stays its own deadlines: the server's are for those that don't.
func (c *console) extend(w http.ResponseWriter, d time.Duration) {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Time{}) // a writer without deadlines needs none
	_ = rc.SetWriteDeadline(time.Now().Add(d))
}

// stream sends events as they happen, until the asker or the node goes.
func (c *console) stream(w http.ResponseWriter, r *http.Request, rd *reading) {
	release, err := c.admit()
	if err != nil {
		failWith(w, err)
		return
	}
	defer release()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy that collects what it passes on makes a stream useless
	if r.Method == http.MethodHead {
		return
	}
	rc := http.NewResponseController(w)
	send := func(text []byte) bool {
		c.extend(w, writeGrace)
		_, err := w.Write(text)
		return err == nil && rc.Flush() == nil
	}
	greeting := "retry: 2000\n: events of " + strconv.QuoteToASCII(c.reg.Node().Name) + "\n\n"
	for {
		if !c.still(r) {
			send([]byte("event: end\ndata: {\"message\":\"what you may do has changed; come back with Last-Event-ID and show it again\"}\n\n"))
			return
		}
		text, err := c.news(rd)
		if err != nil {
			c.cfg.Logger.Error("event stream: an event can't be written as JSON", "err", err)
			return
		}
		if greeting != "" { // an id without data moves the place of whoever comes back, and is no event
			text = fmt.Appendf([]byte(greeting), "%sid: %s\n\n", text, rd.at)
			greeting = ""
		}
		if len(text) > 0 && !send(text) {
			return
		}
		switch err := c.next(r.Context(), rd); {
		case err == nil:
		case r.Context().Err() != nil || !errors.Is(err, context.DeadlineExceeded):
			send([]byte("event: end\ndata: {\"message\":\"the node is stopping; come back with Last-Event-ID\"}\n\n"))
			return
		case !send([]byte(": still here\nid: " + rd.at.String() + "\n\n")):
			return
		}
	}
}

// next waits for an event, at most until it is time to say that the stream is alive.
func (c *console) next(ctx context.Context, rd *reading) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Heartbeat)
	defer cancel()
	if err := c.reg.EventsWait(ctx, rd.at.seq); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	return nil
}

// news writes what has happened since as the stream's text.
func (c *console) news(rd *reading) ([]byte, error) {
	list, _ := c.take(rd, math.MaxInt)
	var buf bytes.Buffer
	if rd.lost {
		rd.lost = false
		fmt.Fprintf(&buf, "event: lost\ndata: {\"message\":\"some events before the next are no longer kept\"}\n\n")
	}
	for i := range list {
		one, err := encode(&list[i])
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&buf, "id: %s\ndata: %s\n\n", place{rd.at.run, list[i].Seq}, one)
	}
	return buf.Bytes(), nil
}

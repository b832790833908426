package cli

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eiderhq/eider"
)

// drainList is the answer of /v1/drains.
type drainList struct {
	Now     time.Time     `json:"now"`
	Drains  []eider.Drain `json:"drains"`
	LeftOut int           `json:"left_out,omitempty"`
}

func (a *app) drainsCommand() *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:   "drains [SERVICE]",
		Short: "List planned departures and holds: how long each paused, and what ended the pause",
		Long: `List planned departures and holds, the newest first: the running ones, and the last 256.

PAUSE is the lame-duck pause: from the leave until every caller had let go of the
instance or was covered by a cap, whose owner is then named. A running one says whom it
waits for, and how long at most, or that it only finishes what is in flight. An instance
that is held pauses nothing: PAUSE is then how long its callers took to let go of it.

With --watch the table is drawn anew as drains begin, go on and end.`,
		Example: `  eider drains
  eider drains orders --watch
  eider drains --json | jq '[.drains[].barrier_ns] | max / 1e6'`,
		Args:              maybeService,
		ValidArgsFunction: a.completeService,
		RunE: a.asking(func(cmd *cobra.Command, c *client, args []string) error {
			if watch {
				return a.watchDrains(cmd.Context(), c, first(args))
			}
			list, err := c.drains(cmd.Context(), first(args))
			if err != nil {
				return err
			}
			return a.answer(list, func(t *table) { drawDrains(t, list, first(args)) })
		}),
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "draw the table anew at every change, until Ctrl-C")
	return cmd
}

func (c *client) drains(ctx context.Context, service string) (list drainList, err error) {
	query := url.Values{}
	if service != "" {
		query.Set("service", service)
	}
	_, err = c.fetch(ctx, question{path: "/v1/drains", query: query}, &list)
	return list, err
}

// watchDrains shows the drains at every event, and while one runs every half second besides: its progress
// makes no events.
func (a *app) watchDrains(ctx context.Context, c *client, service string) error {
	return a.whileFollowing(ctx, func(string) (*following, error) {
		return c.follow(ctx, service, url.Values{"last": {"0"}}, "")
	}, func(stream *following) error { return a.redrawDrains(ctx, c, service, stream) })
}

func (a *app) redrawDrains(ctx context.Context, c *client, service string, stream *following) error {
	news, over := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		for {
			if _, err := stream.next(); err != nil {
				over <- err
				return
			}
			select {
			case news <- struct{}{}:
			default: // a redraw is due already
			}
		}
	}()
	defer func() { stream.close(); <-over }()
	for {
		list, err := c.drains(ctx, service)
		if err != nil {
			return err
		}
		if err := a.frame(list, func(t *table) { drawDrains(t, list, service) }); err != nil {
			return err
		}
		breathe(ctx)
		var tick <-chan time.Time
		if slices.ContainsFunc(list.Drains, func(d eider.Drain) bool { return !d.Over && !(d.Kind == eider.HoldDrain && d.Reached) }) {
			tick = time.After(500*time.Millisecond - frameGap)
		}
		select {
		case <-news:
		case <-tick:
		case err := <-over:
			over <- err
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func drawDrains(t *table, list drainList, service string) {
	if len(list.Drains) == 0 {
		whose := ""
		if service != "" {
			whose = " of " + service
		}
		t.say(fmt.Sprintf("No instance%s has left as planned, or was held, since this node started.", whose))
		return
	}
	t.row("INSTANCE", "STATUS", "BEGAN", "PAUSE", "CALLERS", "ENDED BY")
	for i := range list.Drains {
		d := &list.Drains[i]
		t.row(d.Key.String(), standing(d), age(list.Now.Sub(d.Since))+" ago", pauseOf(d, list.Now), fmt.Sprint(d.Total), endedBy(d))
	}
	if list.LeftOut > 0 {
		t.say(fmt.Sprintf("and %d older ones; --json has as many", list.LeftOut))
	}
}

// standing is the status of the instance, and whether it is held: then it stays what it is.
func standing(d *eider.Drain) cell {
	c := statusCell(d.Status, 0)
	if d.Kind == eider.HoldDrain {
		c.text, c.hue = c.text+" held", warn
		if d.Over {
			c.hue = dim
		}
	}
	return c
}

func pauseOf(d *eider.Drain, now time.Time) string {
	switch {
	case d.Reached && d.Total == 0 && !d.Over:
		return "" // there was none
	case d.Reached:
		return span(d.Barrier)
	case d.Over:
		return ""
	}
	return fmt.Sprintf("%s of ≤ %s", span(max(now.Sub(d.Since), 0).Round(10*time.Millisecond)), span(d.Bound))
}

// maxNamed bounds the callers named in one row.
const maxNamed = 3

// endedBy says what ended the pause, or what it waits for.
func endedBy(d *eider.Drain) cell {
	held := d.Kind == eider.HoldDrain
	switch {
	case held && !d.Reached && d.Over:
		return cell{"the end of its hold, before every caller had let go", dim}
	case !d.Reached && d.Over:
		return cell{"its own end, before every caller had let go", bad}
	case !d.Reached:
		return cell{fmt.Sprintf("waits for %d of %d: %s", d.Open, d.Total, named(d, d.Open, func(m *eider.Member) bool { return !m.State.Settled() }, (*eider.Member).String)), moves}
	case !d.Over && !held:
		return cell{"pause over; finishing what is in flight", moves}
	case d.Total == 0:
		return cell{"nobody to wait for", good}
	}
	capped := func(m *eider.Member) bool { return m.State == eider.Capped }
	n := 0
	var last *eider.Member
	for i := range d.Members {
		m := &d.Members[i]
		if capped(m) {
			n++
		}
		if last == nil || m.Settled > last.Settled {
			last = m
		}
	}
	switch {
	case n > 0:
		return cell{"the cap of " + named(d, n, capped, func(m *eider.Member) string { return m.Caller + disconnected(m) }), warn}
	case last == nil:
		return cell{"the last caller", good}
	case last.State == eider.LetGo:
		return cell{last.Caller + " let go, the last", good}
	case last.State == eider.Polled:
		return cell{last.Caller + " has polled since, the last", good}
	case last.State == eider.SaidGoodbye:
		return cell{last.Caller + " said goodbye, the last", good}
	}
	return cell{last.Caller + " " + string(last.State) + ", the last", good}
}

// disconnected says why somebody may have taken so long.
func disconnected(m *eider.Member) string {
	switch {
	case m.Kind == eider.Poller:
		return " (poller)"
	case m.Stream || m.Kind != eider.Native:
		return ""
	}
	return " (disconnected)"
}

// named lists some of the n members that are meant, by what say makes of them.
func named(d *eider.Drain, n int, meant func(*eider.Member) bool, say func(*eider.Member) string) string {
	var names []string
	for i := range d.Members {
		if m := &d.Members[i]; meant(m) && len(names) < maxNamed {
			names = append(names, say(m))
		}
	}
	if more := n - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/harmless"
)

// eventList is the answer of /v1/events.
type eventList struct {
	Now    time.Time     `json:"now"`
	Events []eider.Event `json:"events"`
	Lost   bool          `json:"lost"`
	Last   string        `json:"last"`
	More   bool          `json:"more"`
}

func (a *app) eventsCommand() *cobra.Command {
	var follow bool
	last := whole{n: 100, most: 10_000}
	var service string
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Tell what happened: registrations, departures, suspicions, ends",
		Long: `Tell what happened, one event a line, the oldest first. The registry keeps the last
few thousand events of its own run.

With --follow it goes on telling, until Ctrl-C, also across a restart of the registry;
with --json each event is then one line.`,
		Example: `  eider events
  eider events --follow
  eider events --follow --last 0 --service orders
  eider events --follow --json | jq -c 'select(.kind == "lapsed")'`,
		Args: noArguments,
		RunE: a.asking(func(cmd *cobra.Command, c *client, _ []string) error {
			query := url.Values{"last": {last.String()}}
			if cmd.Flags().Changed("service") {
				if err := checkService(service); err != nil {
					return err
				}
				service = eider.FoldService(service)
				query.Set("service", service)
			}
			if follow {
				if err := a.strange(cmd.Context(), c, service); err != nil {
					fmt.Fprintf(a.Err, "eider: %s (waiting for it)\n", harmless.Text(oneLine(err.Error())))
				}
				return a.followEvents(cmd.Context(), c, service, query)
			}
			var list eventList
			if _, err := c.fetch(cmd.Context(), question{path: "/v1/events", query: query}, &list); err != nil {
				return err
			}
			if err := a.strange(cmd.Context(), c, service); err != nil && len(list.Events) == 0 {
				return err
			}
			return a.answer(list, func(t *table) { a.drawEvents(t, list, service) })
		}),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on telling, until Ctrl-C")
	cmd.Flags().VarP(&last, "last", "n", "tell the last `N` events first, at most 10000")
	cmd.Flags().StringVar(&service, "service", "", "tell of this `SERVICE` only")
	return cmd
}

// strange returns what the registry says of a service that it has never heard of, nil of any other: of a misspelt
// one nothing would ever happen.
func (a *app) strange(ctx context.Context, c *client, service string) error {
	if service == "" {
		return nil
	}
	var v viewAnswer
	_, err := c.fetch(ctx, question{path: "/v1/services/" + service, query: url.Values{"limit": {"1"}}}, &v)
	if eider.KindOf(err) != eider.NotFound {
		return nil // that the registry can't be asked, the question itself will show
	}
	return err
}

func (a *app) drawEvents(t *table, list eventList, service string) {
	t.width = 0 // what happened is told whole
	if len(list.Events) == 0 {
		of := ""
		if service != "" {
			of = " to " + service
		}
		t.say(fmt.Sprintf("Nothing has happened%s since this node started, or too long ago to be kept.", of))
		return
	}
	for i := range list.Events {
		a.drawEvent(t, &list.Events[i])
	}
}

// kindWidth is the longest kind's: lines of a stream can't wait for each other to be aligned.
const kindWidth = 16

func (a *app) drawEvent(t *table, e *eider.Event) {
	rest := strings.TrimPrefix(strings.TrimPrefix(e.String(), string(e.Kind)), " ")
	kind := cell{fmt.Sprintf("%-*s", kindWidth, e.Kind), hueOf(e.Kind)}
	t.row(e.Time.In(a.zone()).Format("2006-01-02 15:04:05.000"), kind, oneLine(rest))
}

// hueOf colours what a reader looks for.
func hueOf(kind eider.EventKind) string {
	switch kind {
	case eider.EventReleased, eider.EventRegistered, eider.EventCured, eider.EventBarrier, eider.EventPreserved, eider.EventKept, eider.EventBreakersClosed:
		return good
	case eider.EventLeaving, eider.EventStatus, eider.EventReattached, eider.EventTrial, eider.EventRestored:
		return moves
	case eider.EventLeft, eider.EventCallerJoined, eider.EventCallerLeft:
		return dim
	case eider.EventSuspect, eider.EventCapped, eider.EventStreamEnded, eider.EventPaused, eider.EventPreserving,
		eider.EventHeld, eider.EventHoldEnded, eider.EventHeldGone, eider.EventBreakerOpen:
		return warn
	}
	return bad
}

// followEvents tells events until ctx ends; it comes back after a registry that went away, to where it was.
func (a *app) followEvents(ctx context.Context, c *client, service string, query url.Values) error {
	return a.whileFollowing(ctx, func(place string) (*following, error) {
		return c.follow(ctx, service, query, place)
	}, a.tellEvents)
}

func (a *app) tellEvents(stream *following) error {
	for {
		m, err := stream.next()
		if err != nil {
			return err
		}
		if m.event == "lost" {
			fmt.Fprintln(a.Err, "eider: some events before the next are no longer kept")
		}
		if m.event != "" {
			continue
		}
		var e eider.Event
		if err := json.Unmarshal([]byte(m.data), &e); err != nil {
			return &exit{exitFailure, fmt.Errorf("an event can't be read: %w; is the registry of another version than this command?", err)}
		}
		if a.output == "json" {
			err = a.print(m.data + "\n")
		} else {
			t := &table{colour: a.colour()}
			a.drawEvent(t, &e)
			err = a.print(t.String())
		}
		if err != nil {
			return err
		}
	}
}

// zone is where this command's person lives.
func (a *app) zone() *time.Location {
	if a.Zone != nil {
		return a.Zone
	}
	return time.Local
}

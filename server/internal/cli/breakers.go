package cli

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eiderhq/eider"
)

// breakerList is the answer of /v1/breakers.
type breakerList struct {
	Now      time.Time        `json:"now"`
	Callers  int              `json:"callers"`
	Breakers []eider.Breakers `json:"breakers"`

	Fleet   []eider.FleetBreaker `json:"fleet,omitempty"`
	LeftOut int                  `json:"fleet_left_out,omitempty"`
	Next    string               `json:"next,omitempty"`
}

func (a *app) breakersCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "breakers [SERVICE]",
		Short: "List whose circuit breakers are open for which instances, and why",
		Long: `List the instances for which some caller's circuit breaker isn't closed; without SERVICE,
of every service.

Each caller has a breaker of its own for each instance, and tells the registry when it
opens: by which rule, and when it lets a trial call through. STATE is the gravest of all;
CALLERS counts those whose breaker turns calls away, of all that have a stream. WHY, SINCE
and NEXT TRIAL are those of the first caller named under SEEN BY.

One caller of many says more of that caller's network than of the instance. The registry
changes no status for what callers say: it looks for itself, once the instance's stream
has ended.

Below stand the breakers that callers share (FLEET): why by the numbers of all of them,
and how many saw it (SAW) as it opened, of how many that watch now. Without SERVICE those that
are closed are left out. open, close and reset are an operator's word to one of them, for
all of its callers at once; a service of that name is found in the list of all.`,
		Example: `  eider breakers
  eider breakers open orders
  eider breakers orders --json | jq -r '.breakers[] | select(.rejecting > 1) | .id'`,
		Args:              maybeService,
		ValidArgsFunction: a.completeService,
		RunE: a.asking(func(cmd *cobra.Command, c *client, args []string) error {
			service := first(args)
			all := breakerList{Breakers: []eider.Breakers{}}
			for after := ""; ; {
				query := paged(after)
				if service != "" {
					query.Set("service", service)
				}
				var page breakerList
				if _, err := c.fetch(cmd.Context(), question{path: "/v1/breakers", query: query}, &page); err != nil {
					return err
				}
				page.Breakers = append(all.Breakers, page.Breakers...)
				if after != "" { // they are on the first page
					page.Fleet, page.LeftOut = all.Fleet, all.LeftOut
				}
				after, all = page.Next, page
				if after == "" {
					break
				}
			}
			return a.answer(all, func(t *table) {
				drawBreakers(t, all, service)
				drawFleet(t, all)
			})
		}),
	}
	cmd.AddCommand(a.forceCommands()...)
	return cmd
}

// forceCommands are an operator's words.
func (a *app) forceCommands() []*cobra.Command {
	return []*cobra.Command{
		a.forceCommand("open", "Have all callers of a shared breaker rejected, until it is reset",
			"Every call of every caller that shares the breaker KEY is rejected within milliseconds, and\nno trial is let through, until `eider breakers reset KEY`, or until this node starts anew:\nit has them in memory. A caller whose node is away goes by its own breaker.", "rejects every call"),
		a.forceCommand("close", "Have all calls of a shared breaker let through, until it is reset",
			"Every call of every caller that shares the breaker KEY is let through whatever comes of it, and\nnone is counted, until `eider breakers reset KEY`, or until this node starts anew: it has\nthem in memory.", "lets every call through, and counts none"),
		a.forceCommand("reset", "Close a shared breaker as if it had never opened",
			"The breaker KEY is closed as if it had never opened, whatever it was or was made by `open` or\n`close`; it opens again when its callers see cause.", "is closed, and counts anew"),
	}
}

// forceCommand is an operator's word to a breaker that callers share.
func (a *app) forceCommand(do, short, long, done string) *cobra.Command {
	return &cobra.Command{
		Use:   do + " KEY",
		Short: short,
		Long: long + `

KEY is what its callers share it by: for services of this registry the service's name. A
breaker that nobody shares through this node can't be told anything.`,
		Example: "  eider breakers " + do + " orders",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return usage("name one breaker by its key, as in `eider breakers %s orders`; `eider breakers` shows those that aren't closed", do)
			}
			return nil
		},
		ValidArgsFunction: a.completeService,
		RunE: a.asking(func(cmd *cobra.Command, c *client, args []string) error {
			var b eider.FleetBreaker
			body := map[string]string{"key": args[0], "do": do}
			if _, err := c.fetch(cmd.Context(), question{method: http.MethodPost, path: "/v1/breakers", body: body}, &b); err != nil {
				return err
			}
			return a.answer(b, func(t *table) {
				ends := ""
				if do != "reset" {
					ends = fmt.Sprintf(" `eider breakers reset %s` ends that.", b.Key)
				}
				t.say(fmt.Sprintf("%s %s: %s %s it.%s", b.Key, done, count(b.Watching, "caller"), word(b.Watching, "watches", "watch"), ends))
			})
		}),
	}
}

// drawFleet draws the breakers that callers share, if there are any.
func drawFleet(t *table, all breakerList) {
	if len(all.Fleet) == 0 {
		return
	}
	if all.Callers > 0 || len(all.Breakers) > 0 {
		t.say("")
	}
	t.row("FLEET", "STATE", "WHY", "SAW", "SINCE", "NEXT TRIAL")
	for i := range all.Fleet {
		b := &all.Fleet[i]
		why, saw, since := b.Why(), "", ""
		if !b.State.Rejects() && b.Telling > 0 {
			why = fmt.Sprintf("%d of %d calls bad, of %s", b.Failures+b.Slow, b.Calls, count(b.Telling, "caller"))
		}
		if b.Seers > 0 {
			saw = fmt.Sprintf("%d of %d", b.Seers, max(b.Watching, b.Seers))
		}
		if !b.Since.IsZero() {
			since = age(all.Now.Sub(b.Since))
		}
		state := breakerCell(b.State)
		if b.Fault != "" {
			state, why = cell{"unreadable", bad}, ""
		}
		t.row(b.Key, state, why, saw, since, fleetTrial(b, all.Now))
	}
	if all.LeftOut > 0 {
		t.say(fmt.Sprintf("and %d more; name a service, or ask /v1/breakers with a larger limit", all.LeftOut))
	}
	for i := range all.Fleet {
		if b := &all.Fleet[i]; b.Fault != "" {
			t.say(fmt.Sprintf("%s: %s; `eider breakers reset` begins anew", b.Key, b.Fault))
		}
	}
}

// fleetTrial says who tries, or when somebody may.
func fleetTrial(b *eider.FleetBreaker, now time.Time) string {
	left := max(b.Retry.Sub(now), 0)
	switch {
	case b.State == eider.BreakerForcedOpen:
		return "by hand"
	case b.Holder != "":
		return "by " + b.Holder
	case b.State == eider.BreakerHalfOpen, b.State == eider.BreakerOpen && left == 0:
		return "next call"
	case b.State == eider.BreakerOpen:
		return "in " + span(left)
	}
	return ""
}

func drawBreakers(t *table, all breakerList, service string) {
	switch {
	case len(all.Breakers) > 0:
	case all.Callers == 0 && len(all.Fleet) > 0: // who shares a breaker needn't follow a service
		return
	default:
		t.say(allClosed(all.Callers, service))
		return
	}
	head := []any{"INSTANCE", "STATE", "CALLERS", "WHY", "SINCE", "NEXT TRIAL", "SEEN BY"}
	if service == "" {
		head = append([]any{"SERVICE"}, head...)
	}
	t.row(head...)
	for i := range all.Breakers {
		b := &all.Breakers[i]
		var first eider.Seen
		if len(b.Seen) > 0 {
			first = b.Seen[0]
		}
		row := []any{b.ID, breakerCell(b.State), fmt.Sprintf("%d of %d", b.Rejecting, b.Callers), first.Why(),
			age(all.Now.Sub(first.Since)), trial(&first, all.Now), seenBy(b)}
		if service == "" {
			row = append([]any{b.Service}, row...)
		}
		t.row(row...)
	}
}

// allClosed says that nobody turns calls away, and how many would have said so.
func allClosed(callers int, service string) string {
	if service == "" {
		service = "any service"
	}
	if callers == 0 {
		return fmt.Sprintf("Nobody calls %s through this registry now, so nobody tells of a breaker.", service)
	}
	return fmt.Sprintf("Every breaker is closed, as far as %s of %s %s.", count(callers, "caller"), service, word(callers, "tells", "tell"))
}

// word is the word that goes with a number.
func word(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

func breakerCell(s eider.BreakerState) cell {
	switch {
	case s == eider.BreakerHalfOpen:
		return cell{s.String(), warn}
	case s.Rejects():
		return cell{s.String(), bad}
	case s == eider.BreakerRamping:
		return cell{s.String(), moves}
	}
	return cell{text: s.String()}
}

// trial says when a call may be let through again.
func trial(s *eider.Seen, now time.Time) string {
	switch left := s.Retry.Sub(now); {
	case s.State == eider.BreakerForcedOpen:
		return "by hand"
	case s.State == eider.BreakerHalfOpen:
		return "under way"
	case s.State != eider.BreakerOpen:
		return ""
	case s.Retry.IsZero() || left <= 0:
		return "next call"
	default:
		return "in " + span(left)
	}
}

// namedCallers is how many callers a row names.
const namedCallers = 3

func seenBy(b *eider.Breakers) string {
	var names []string
	for _, s := range b.Seen[:min(len(b.Seen), namedCallers)] {
		name := s.Caller
		if s.State != b.State {
			name += " (" + s.State.String() + ")"
		}
		names = append(names, name)
	}
	text := strings.Join(names, ", ")
	if rest := b.Told - len(names); rest > 0 {
		text += fmt.Sprintf(" and %d more", rest)
	}
	return text
}

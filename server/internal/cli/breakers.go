package cli

import (
	"fmt"
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
	Next     string           `json:"next,omitempty"`
}

func (a *app) breakersCommand() *cobra.Command {
	return &cobra.Command{
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
has ended.`,
		Example: `  eider breakers
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
				after, all = page.Next, page
				if after == "" {
					break
				}
			}
			return a.answer(all, func(t *table) { drawBreakers(t, all, service) })
		}),
	}
}

func drawBreakers(t *table, all breakerList, service string) {
	if len(all.Breakers) == 0 {
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

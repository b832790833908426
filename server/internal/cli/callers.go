package cli

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/eiderhq/eider"
)

// callerList is the answer of /v1/callers.
type callerList struct {
	Now     time.Time      `json:"now"`
	Callers []eider.Caller `json:"callers"`
	Next    string         `json:"next,omitempty"`
}

func (a *app) callersCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "callers [SERVICE]",
		Short: "List who calls a service, and how far behind they are",
		Long: `List the processes that pick instances of a service; without SERVICE, of every service.

A drain of an instance waits for each of them: for a native caller until it says that it has
let go; for a poller until it can't be using a list from before the leave any more, which
follows from the timers that it gives (every, cache); for unknown callers, who don't say who
they are, for the pause that the instance asks for. BEHIND counts published changes that a
caller hasn't applied yet: 0 means that it knows the newest view.
CAP is how long a drain waits at most for a caller that never lets go.`,
		Example: `  eider callers orders
  eider callers orders --json | jq -r '.callers[] | select(.behind > 0) | .id'`,
		Args:              maybeService,
		ValidArgsFunction: a.completeService,
		RunE: a.asking(func(cmd *cobra.Command, c *client, args []string) error {
			service := first(args)
			all := callerList{Callers: []eider.Caller{}}
			for after := ""; ; {
				query := paged(after)
				if service != "" {
					query.Set("service", service)
				}
				var page callerList
				if _, err := c.fetch(cmd.Context(), question{path: "/v1/callers", query: query}, &page); err != nil {
					return err
				}
				page.Callers = append(all.Callers, page.Callers...)
				after, all = page.Next, page
				if after == "" {
					break
				}
			}
			return a.answer(all, func(t *table) { drawCallers(t, all, service) })
		}),
	}
}

// first returns the one service that may be named, in lower case.
func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return eider.FoldService(args[0])
}

func drawCallers(t *table, all callerList, service string) {
	if len(all.Callers) == 0 {
		whom := service
		if whom == "" {
			whom = "any service"
		}
		t.say(fmt.Sprintf("Nobody calls %s through this registry now: a drain waits for nobody.", whom))
		return
	}
	head := []any{"CALLER", "KIND", "STREAM", "FOLLOWS FOR", "BEHIND", "CAP"}
	if service == "" {
		head = append([]any{"SERVICE"}, head...)
	}
	t.row(head...)
	for _, one := range all.Callers {
		row := []any{one.ID, string(one.Kind), streamOf(&one), age(all.Now.Sub(one.Since)), behindOf(&one), span(one.Cap)}
		if service == "" {
			row = append([]any{one.Service}, row...)
		}
		t.row(row...)
	}
}

// streamOf says how a caller hears of changes.
func streamOf(c *eider.Caller) cell {
	switch {
	case c.Stream:
		return cell{"connected", good}
	case c.Kind == eider.Poller:
		text := "polls every " + span(c.Every)
		if c.Cache > 0 {
			text += ", cache " + span(c.Cache)
		}
		return cell{text: text}
	case c.Kind == eider.UnknownCallers:
		return cell{text: "none"}
	}
	return cell{"disconnected", warn}
}

// behindOf counts what a caller hasn't applied. A poller is behind until its next poll, which is no trouble; of unknown
// callers nothing is known.
func behindOf(c *eider.Caller) cell {
	switch {
	case c.Kind == eider.UnknownCallers:
		return cell{}
	case c.Behind > 0 && c.Kind != eider.Poller:
		return cell{strconv.FormatUint(c.Behind, 10), warn}
	}
	return cell{text: strconv.FormatUint(c.Behind, 10)}
}

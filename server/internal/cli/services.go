package cli

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eiderhq/eider"
)

// serviceList is the answer of /v1/services.
type serviceList struct {
	Now      time.Time       `json:"now"`
	Node     string          `json:"node"`
	Complete bool            `json:"complete"`
	Void     []string        `json:"void,omitempty"`
	Services []eider.Summary `json:"services"`
	Next     string          `json:"next,omitempty"`
}

func (a *app) servicesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "services",
		Short: "List the services that the registry knows",
		Long: `List the services that the registry knows, each with its instances by state and its callers.

SUSPECT counts instances that are UP but doubted: ` + "`eider instances SERVICE`" + ` says why.
BEHIND counts callers that haven't applied the newest view yet: ` + "`eider callers SERVICE`" + ` names
them. A service whose last instance has ended stays listed for a day (of those that nobody
calls any more, the last 100).`,
		Example: `  eider services
  eider services --json | jq -r '.services[] | select(.up == 0) | .service'`,
		Args: noArguments,
		RunE: a.asking(func(cmd *cobra.Command, c *client, _ []string) error {
			all := serviceList{Services: []eider.Summary{}}
			for after := ""; ; {
				var page serviceList
				if _, err := c.fetch(cmd.Context(), question{path: "/v1/services", query: paged(after)}, &page); err != nil {
					return err
				}
				page.Services = append(all.Services, page.Services...)
				after, all = page.Next, page
				if after == "" {
					break
				}
			}
			return a.answer(all, func(t *table) { drawServices(t, all) })
		}),
	}
}

func paged(after string) url.Values {
	query := url.Values{"limit": {pageSize}}
	if after != "" {
		query.Set("after", after)
	}
	return query
}

func drawServices(t *table, all serviceList) {
	if len(all.Services) == 0 {
		t.say("No service is registered here, and none was lately. A program registers itself with drain.Serve; `eider events -f` shows it happen.")
	} else {
		t.row("SERVICE", "UP", "SUSPECT", "STARTING", "DOWN", "DRAINING", "HELD", "CALLERS", "BEHIND")
	}
	var ended []string
	for _, s := range all.Services {
		if s.Gone > 0 && s.Up+s.Suspect+s.Starting+s.Down+s.Draining == 0 {
			ended = append(ended, s.Service)
		}
		up := cell{strconv.Itoa(s.Up), good}
		if s.Up == 0 {
			up.hue = bad
		}
		t.row(s.Service, up, number(s.Suspect, warn), number(s.Starting, moves), number(s.Down, bad), number(s.Draining, moves), number(s.Held, warn), number(s.Callers, ""), number(s.Behind, warn))
	}
	if n := len(ended); n > 0 {
		more := ""
		if n > maxNamed {
			ended, more = ended[:maxNamed], fmt.Sprintf(" and %d more", n-maxNamed)
		}
		t.say(fmt.Sprintf("Nobody serves %s%s any more: `eider instances %s --gone` says how that ended.", strings.Join(ended, ", "), more, ended[0]))
	}
	notes(t, all.Complete, all.Void)
}

// number colours a count that isn't 0.
func number(n int, hue string) cell {
	if n == 0 {
		hue = ""
	}
	return cell{strconv.Itoa(n), hue}
}

// notes says what a reader must know beside the table.
func notes(t *table, complete bool, void []string) {
	if !complete {
		t.say("The node started a moment ago: instances that haven't attached to it yet are missing here.")
	}
	for _, why := range void {
		t.say("Bounds don't hold now: " + why)
	}
}

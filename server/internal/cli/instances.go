package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eiderhq/eider"
)

// viewAnswer is the answer of /v1/services/{service}.
type viewAnswer struct {
	eider.View
	GoneLeftOut int    `json:"gone_left_out,omitempty"`
	Next        string `json:"next,omitempty"`
}

func (a *app) instancesCommand() *cobra.Command {
	var watch, gone bool
	cmd := &cobra.Command{
		Use:   "instances SERVICE",
		Short: "List the instances of a service",
		Long: `List the instances of a service: who can be called, who is leaving, who is doubted and why.

Callers pick among those that are UP, not doubted and not held. A doubt is the registry's
opinion and ends by itself once its cause is cured: "beats missed" by the next beat,
"stream ended" when the process attaches again, "wedged" by the next answer that it
completes. A hold is an operator's, and ends when it is released.

With --watch the table is drawn anew at every change, in place on a terminal; with
--json each change is one line. The registry says when something changes: watching
asks nothing in between, and never delays a drain.`,
		Example: `  eider instances orders
  eider instances orders --watch
  eider instances orders --gone
  eider instances orders --json | jq -r '.instances[] | select(.status == "UP") | .address'`,
		Args:              oneService,
		ValidArgsFunction: a.completeService,
		RunE: a.asking(func(cmd *cobra.Command, c *client, args []string) error {
			if watch {
				return a.watchInstances(cmd.Context(), c, eider.FoldService(args[0]), gone)
			}
			v, _, err := c.view(cmd.Context(), eider.FoldService(args[0]), "", 0)
			if err != nil {
				return err
			}
			return a.answer(v, func(t *table) { drawInstances(t, v, gone) })
		}),
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "draw the table anew at every change, until Ctrl-C")
	cmd.Flags().BoolVar(&gone, "gone", false, "list those too that ended lately, and how")
	return cmd
}

// oneService takes exactly one service's name.
func oneService(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage("name one service, as in `eider instances orders`; `eider services` lists them")
	}
	return checkService(args[0])
}

// maybeService takes one service's name, or none.
func maybeService(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usage("name one service or none; %d are given", len(args))
	}
	if len(args) == 0 {
		return nil
	}
	return checkService(args[0])
}

func checkService(name string) error {
	if err := eider.CheckService(eider.FoldService(name)); err != nil {
		return usage("%w", err)
	}
	return nil
}

// view fetches a whole view, page by page; nil when it still has the tag given. A view that changes
// between two pages is fetched again, a few times.
func (c *client) view(ctx context.Context, service, tag string, wait time.Duration) (*viewAnswer, string, error) {
	path := "/v1/services/" + service
	for try := 0; ; try++ {
		first := question{path: path, query: paged(""), tag: tag, wait: wait}
		if wait > 0 {
			first.query.Set("wait", wait.String())
		}
		all := &viewAnswer{}
		resp, err := c.fetch(ctx, first, all)
		if err != nil || resp.StatusCode == http.StatusNotModified {
			return nil, tag, err
		}
		seen, torn := resp.Header.Get("ETag"), false
		for all.Next != "" && !torn {
			page := &viewAnswer{}
			resp, err := c.fetch(ctx, question{path: path, query: paged(all.Next)}, page)
			if err != nil {
				return nil, tag, err
			}
			all.Instances, all.Next = append(all.Instances, page.Instances...), page.Next
			torn = resp.Header.Get("ETag") != seen
		}
		if !torn || try == 3 {
			all.Next = ""
			return all, seen, nil
		}
	}
}

// watchInstances shows the view at every change until ctx ends. It outlives the registry's restarts.
func (a *app) watchInstances(ctx context.Context, c *client, service string, gone bool) error {
	var patience again
	tag, wait := "", time.Duration(0)
	for {
		asked := time.Now()
		v, newTag, err := c.view(ctx, service, tag, wait)
		if err == nil && v == nil && time.Since(asked) < wait/2 {
			err = errTooSoon
		}
		switch {
		case err != nil && ended(ctx, err):
			return nil
		case err != nil && (tag == "" || isFailure(err)):
			return err // never seen: most likely misspelt, or no registry
		case err != nil:
			if !patience.wait(ctx, a, err) {
				return nil
			}
			continue
		case v != nil:
			if err := a.frame(v, func(t *table) { drawInstances(t, v, gone) }); err != nil {
				return err
			}
			breathe(ctx)
		}
		tag, wait, patience = newTag, 30*time.Second, again{}
	}
}

// frame shows one state of something watched: in place on a terminal, under the others elsewhere, as one
// line of JSON.
func (a *app) frame(v any, draw func(*table)) error {
	if a.output == "json" {
		return a.writeJSON(v, false)
	}
	t := a.table()
	t.say(time.Now().In(a.zone()).Format(time.TimeOnly))
	draw(t)
	if a.Terminal {
		return a.print("\x1b[H\x1b[2J" + t.String())
	}
	return a.print(t.String() + "\n")
}

func drawInstances(t *table, v *viewAnswer, gone bool) {
	if len(v.Instances) == 0 {
		t.say(fmt.Sprintf("Nobody serves %s now.", v.Service))
	} else {
		t.row("ID", "STATUS", "ADDRESS", "ZONE", "PORTS", "INCARNATION", "DOUBTS", "HELD")
	}
	for i := range v.Instances {
		in := &v.Instances[i]
		t.row(in.ID, statusCell(in.Status, in.Suspicion), in.Address, in.Zone, ports(in.Ports), in.Incarnation.String(), cell{in.Suspicion.String(), warn}, cell{heldCell(in.Hold), warn})
	}
	if gone {
		drawGone(t, v)
	} else if n := len(v.Gone) + v.GoneLeftOut; n > 0 && len(v.Instances) == 0 {
		t.say(fmt.Sprintf("%s ended lately: --gone lists them.", count(n, "instance")))
	}
	notes(t, v.Complete, nil)
}

// heldCell says why somebody is held, and until when.
func heldCell(h *eider.Hold) string {
	if h == nil {
		return ""
	}
	text := cmp.Or(h.Reason, "held")
	if !h.Until.IsZero() {
		text += ", until " + moment(h.Until)
	}
	return text
}

func drawGone(t *table, v *viewAnswer) {
	if len(v.Gone) == 0 {
		t.say("Nobody ended lately (who came back under its id isn't shown).")
		return
	}
	t.say("")
	t.row("GONE", "STATUS", "INCARNATION", "HOW")
	for _, g := range v.Gone {
		t.row(g.ID, statusCell(g.Status, 0), g.Incarnation.String(), endings[g.Status])
	}
	if v.GoneLeftOut > 0 {
		t.say(fmt.Sprintf("and %d more", v.GoneLeftOut))
	}
}

// endings says what a final status means.
var endings = map[eider.Status]string{
	eider.Left:   "left as planned",
	eider.Dead:   "its stream ended and its port refused",
	eider.Lapsed: "silent for its whole lease",
}

func ports(ports map[string]uint16) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(ports)) {
		out = append(out, fmt.Sprintf("%s:%d", name, ports[name]))
	}
	return strings.Join(out, " ")
}

// completeService offers the names of services to the shell.
func (a *app) completeService(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var list serviceList
	if !a.hint(cmd, "/v1/services", &list) {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, s := range list.Services {
		if strings.HasPrefix(s.Service, eider.FoldService(prefix)) {
			names = append(names, s.Service)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

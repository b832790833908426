package cli

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/harmless"
)

// heldAnswer is what `eider hold` answers: the hold, and how its callers let go, if that was waited for.
type heldAnswer struct {
	Hold  eider.Held   `json:"hold"`
	Drain *eider.Drain `json:"drain,omitempty"`
}

// holdList is the answer of /v1/holds.
type holdList struct {
	Now   time.Time    `json:"now"`
	Holds []eider.Held `json:"holds"`
	Next  string       `json:"next,omitempty"`
}

func (a *app) holdCommand() *cobra.Command {
	var lasts time.Duration
	var reason string
	var wait bool
	cmd := &cobra.Command{
		Use:   "hold INSTANCE",
		Short: "Have callers leave an instance alone, until it is released",
		Long: `Have callers leave an instance alone, until it is released: they let go of it as if it were
leaving, and call the others. Its process isn't touched and isn't told; it stays UP.

An instance is SERVICE/ID, or its ID if no other service has one of that name. The hold
is kept for the key: it outlives the process, a new one under the same id, and with
--data a restart of the registry. Held again, it gets the new reason and end. The last
instance of a service that nobody else serves is still called, held or not.

With --wait the command ends once no caller calls the instance any more, and fails if
some of them may, since they couldn't let go in time: then it names them.`,
		Example: `  eider hold orders/1 --reason "disk swap"
  eider hold orders/1 --for 2h --wait
  eider hold orders-7f9c`,
		Args:              oneInstance,
		ValidArgsFunction: a.completeInstance,
		RunE: a.asking(func(cmd *cobra.Command, c *client, args []string) error {
			if cmd.Flags().Changed("for") && lasts < time.Second {
				return usage("--for %s is too short: at least 1s", lasts)
			}
			key, err := c.findInstance(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.holdInstance(cmd.Context(), c, key, lasts, reason, wait)
		}),
	}
	cmd.Flags().DurationVar(&lasts, "for", 0, "end the hold by itself after this `TIME`, as in 2h (default: until it is released)")
	cmd.Flags().StringVar(&reason, "reason", "", "`TEXT` for whoever sees that it is held")
	cmd.Flags().BoolVarP(&wait, "wait", "w", false, "wait until every caller has let go, and show whom that waits for")
	return cmd
}

func (a *app) releaseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "release INSTANCE",
		Short: "End a hold: callers call the instance again",
		Long: `End a hold: callers call the instance again, more and more of them over ten seconds, as one
that has just come up. An instance is SERVICE/ID, or its ID if only one of that name is held.`,
		Example: `  eider release orders/1`,
		Args:    oneInstance,
		RunE: a.asking(func(cmd *cobra.Command, c *client, args []string) error {
			key, err := c.findHeld(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			var released eider.Key
			path := "/v1/holds/" + key.Service + "/" + key.ID
			if _, err := c.fetch(cmd.Context(), question{method: http.MethodDelete, path: path}, &released); err != nil {
				return err
			}
			return a.answer(released, func(t *table) { t.say(released.String() + " is released: callers call it again.") })
		}),
	}
}

// oneInstance takes exactly one instance: service/id, or an id alone.
func oneInstance(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage("name one instance, as in orders/1; `eider instances orders` lists those of a service")
	}
	service, id, both := strings.Cut(args[0], "/")
	if !both {
		service, id = "any", args[0]
	}
	if err := checkService(service); err != nil {
		return err
	}
	if err := eider.CheckID(id); err != nil {
		return usage("%w", err)
	}
	return nil
}

// findInstance returns the key that a person means: of an id alone the only one listed, over all services.
func (c *client) findInstance(ctx context.Context, text string) (eider.Key, error) {
	if service, id, both := strings.Cut(text, "/"); both {
		return eider.Key{Service: eider.FoldService(service), ID: id}, nil
	}
	var list serviceList
	if _, err := c.fetch(ctx, question{path: "/v1/services", query: paged("")}, &list); err != nil {
		return eider.Key{}, err
	}
	var found []eider.Key
	for _, s := range list.Services {
		v, _, err := c.view(ctx, s.Service, "", 0)
		if err != nil {
			return eider.Key{}, err
		}
		if _, ok := v.Find(text); ok {
			found = append(found, eider.Key{Service: s.Service, ID: text})
		}
	}
	return only(found, text, "listed; `eider services` shows which services there are")
}

// findHeld is findInstance among those that are held.
func (c *client) findHeld(ctx context.Context, text string) (eider.Key, error) {
	if service, id, both := strings.Cut(text, "/"); both {
		return eider.Key{Service: eider.FoldService(service), ID: id}, nil
	}
	var list holdList
	if _, err := c.fetch(ctx, question{path: "/v1/holds", query: paged("")}, &list); err != nil {
		return eider.Key{}, err
	}
	var found []eider.Key
	for i := range list.Holds {
		if list.Holds[i].ID == text {
			found = append(found, list.Holds[i].Key)
		}
	}
	return only(found, text, "held; `eider instances SERVICE` shows who is")
}

func only(found []eider.Key, id, what string) (eider.Key, error) {
	switch len(found) {
	case 0:
		return eider.Key{}, eider.Errorf(eider.NotFound, "", "no instance %q is %s", id, what)
	case 1:
		return found[0], nil
	}
	var names []string
	for _, key := range found[:min(len(found), 5)] {
		names = append(names, key.String())
	}
	return eider.Key{}, usage("%d services have an instance %q: say which, as %s", len(found), id, strings.Join(names, " or "))
}

func (a *app) holdInstance(ctx context.Context, c *client, key eider.Key, lasts time.Duration, reason string, wait bool) error {
	body := map[string]string{"service": key.Service, "id": key.ID, "reason": reason}
	if lasts > 0 {
		body["for"] = lasts.String()
	}
	var out heldAnswer
	if _, err := c.fetch(ctx, question{method: http.MethodPost, path: "/v1/holds", body: body}, &out.Hold); err != nil {
		return err
	}
	if !wait {
		return a.answer(out, func(t *table) { t.say(heldLine(&out.Hold)) })
	}
	if a.output != "json" {
		if err := a.print(heldLine(&out.Hold) + "\n"); err != nil {
			return err
		}
	}
	d, err := a.awaitLetGo(ctx, c, &out.Hold)
	if err != nil {
		return err
	}
	if out.Drain = d; a.output == "json" {
		if err := a.writeJSON(out, true); err != nil {
			return err
		}
	}
	return a.letGoOf(&out.Hold, d)
}

// heldLine says that somebody is held, as far as that is known.
func heldLine(h *eider.Held) string {
	text := h.Key.String() + " is held"
	if !h.Until.IsZero() {
		text += " until " + moment(h.Until)
	}
	if h.Reason != "" {
		text += ": " + h.Reason
	}
	return text
}

// moment writes a time to come, for anybody anywhere.
func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// letGoOf says how waiting for callers has ended; an error if the instance may still be called.
func (a *app) letGoOf(h *eider.Held, d *eider.Drain) error {
	switch {
	case d == nil:
		return a.note("nobody has to let go of it: it isn't listed, or leaves already (`eider drains` shows that)")
	case !d.Reached:
		return &exit{exitFailure, fmt.Errorf("%s was held no longer, or ended, before every caller had let go", h.Key)}
	case slices.ContainsFunc(d.Members, func(m eider.Member) bool { return m.State == eider.Capped }):
		return &exit{exitFailure, fmt.Errorf("%s is held, and may still be called: %s", h.Key, endedBy(d).text)}
	}
	return a.note(fmt.Sprintf("nobody calls it any more: %s let go within %s", count(d.Total, "caller"), span(d.Barrier)))
}

// note prints a line for a person.
func (a *app) note(text string) error {
	if a.output == "json" {
		return nil
	}
	return a.print(harmless.Text(text) + "\n")
}

// awaitLetGo shows how the callers of a held instance let go of it, until the last one has or its cap has passed. nil
// if there is nothing to wait for.
func (a *app) awaitLetGo(ctx context.Context, c *client, h *eider.Held) (*eider.Drain, error) {
	shown := ""
	for {
		list, err := c.drains(ctx, h.Service)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(list.Drains, func(d eider.Drain) bool { return d.Key == h.Key && d.Hold == h.Count })
		if i < 0 {
			return nil, nil
		}
		d := &list.Drains[i]
		if d.Reached || d.Over {
			return d, nil
		}
		if line := endedBy(d).text; line != shown {
			shown = line
			if err := a.note(line); err != nil {
				return nil, err
			}
		}
		breathe(ctx)
		if ctx.Err() != nil {
			return nil, &exit{exitFailure, fmt.Errorf("%s is held; it wasn't waited for until every caller had let go", h.Key)}
		}
	}
}

// completeInstance offers service/id to the shell.
func (a *app) completeInstance(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	service, _, both := strings.Cut(prefix, "/")
	if !both || len(args) > 0 {
		names, how := a.completeService(cmd, args, prefix)
		for i := range names {
			names[i] += "/"
		}
		return names, how | cobra.ShellCompDirectiveNoSpace
	}
	var v viewAnswer
	if !a.hint(cmd, "/v1/services/"+eider.FoldService(service), &v) {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for i := range v.Instances {
		if name := service + "/" + v.Instances[i].ID; strings.HasPrefix(name, prefix) {
			out = append(out, name)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

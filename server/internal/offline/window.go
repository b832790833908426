package offline

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eiderhq/eider/server/internal/outlook"
	"github.com/eiderhq/eider/window"
)

// Window is the command that tells how long a departed instance is still called, and what to set. Without a way to ask
// a registry it has no --service.
func Window(d Desk, ask Live) *cobra.Command {
	var w windowFlags
	cmd := &cobra.Command{
		Use:   "window",
		Short: "Tell how long a departed instance is still called, and what to set",
		Long: `Tell how long a departed instance is still called, and what to set: the pause before the listener may close,
and the grace period around it. It needs no registry and asks none, but for --service: a preset knows a system's
defaults, each with its source, and the terms of a window add up.

PLANNED is an instance that says that it leaves, CRASH one that says nothing. MEAN and percentiles are over all
moments at which an instance may leave and a caller may look. A bound is void when nothing bounds the window: the
reason is told beside it.

A term is NAME=FORM, and FORM one of these:

  30s                              always as long
  0s..30s or uniform(0s,30s)       any time between, equally likely
  backoff(50ms,2s,2,1,5)           until the next try: first, ceiling, factor, jitter, tries that failed
  histogram(0s..10ms:99,5s..6s:1)  measured: spans and their weights`,
		Example: `  eider window
  eider window --preset eureka
  eider window --preset eureka --set client-cache=5s --instances 100 --lost 20 --registry 400
  eider window --preset eureka --what-if client-cache=5s --what-if lease=30s
  eider window --compare eureka,kubernetes,eider --svg window.svg
  eider window --planned-term 'poll=uniform(0s,10s)' --term 'cache=uniform(0s,5s)' --crash-term 'lease=20s..30s'
  eider window --rps 500 --latency 50ms --pool 200
  eider window --preset kubernetes --json | jq .recommend`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return misuse(fmt.Errorf("`%s` takes no argument; is --preset %s meant?", cmd.CommandPath(), args[0]))
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if w.svg == "-" && d.JSON() {
				return misuse(fmt.Errorf("--svg - and JSON both want standard output: draw into a file beside it, as --svg window.svg"))
			}
			if cmd.Flags().Changed("service") {
				return d.service(cmd.Context(), ask, &w, cmd.Flags())
			}
			r, err := w.read(cmd.Flags())
			if err != nil {
				return err
			}
			return d.window(r, w.svg)
		},
	}
	w.declare(cmd.Flags())
	if ask != nil {
		cmd.Flags().StringVar(&w.service, "service", "", "`SERVICE` of a registry: its windows as they are now, by its callers and settings, beside what its last departures took")
		cmd.Example += "\n  eider window --service orders"
	}
	_ = cmd.RegisterFlagCompletionFunc("preset", presetNames) // it fails for an unknown flag only
	_ = cmd.RegisterFlagCompletionFunc("compare", presetNames)
	_ = cmd.RegisterFlagCompletionFunc("set", w.settingNames)
	_ = cmd.RegisterFlagCompletionFunc("what-if", w.settingNames)
	return cmd
}

func presetNames(*cobra.Command, []string, string) (names []string, _ cobra.ShellCompDirective) {
	for _, p := range window.Presets() {
		names = append(names, p.Name+"\t"+p.Title)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// settingNames are those of the preset that is on the line already.
func (w *windowFlags) settingNames(*cobra.Command, []string, string) (names []string, _ cobra.ShellCompDirective) {
	if p, err := window.Lookup(w.preset); err == nil {
		for _, s := range p.Settings {
			names = append(names, s.Name+"=\t"+s.What+", "+s.Default.String())
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// window answers one request.
func (d Desk) window(r request, svg string) error {
	nothing := len(r.presets) == 0 && len(r.planned)+len(r.crash) == 0
	if nothing && r.pool != nil {
		callers := r.fleet.Callers
		if r.alone {
			callers = 1
		}
		return d.littleAlone(littleOf(*r.pool, callers, nil), svg)
	}
	if nothing {
		r.presets = window.Presets()
	}
	all, err := r.outlooks()
	if err != nil {
		return err
	}
	if svg != "" {
		if err := d.picture(svg, all); err != nil || svg == "-" {
			return err
		}
	}
	switch {
	case nothing:
		return d.list(all, drawPresets)
	case len(all) > 1:
		return d.list(all, drawComparison)
	}
	return d.one(all[0], r.pool)
}

// one answers with a single system.
func (d Desk) one(o outlook.Outlook, pool *window.Pool) error {
	answer := struct {
		outlook.Outlook
		Little *little `json:"little,omitempty"`
	}{Outlook: o}
	if pool != nil {
		l := littleOf(*pool, o.Fleet.Callers, &o)
		answer.Little = &l
	}
	if d.JSON() {
		return d.printJSON(answer)
	}
	p := d.page()
	drawOutlook(p, o)
	if answer.Little != nil {
		p.say("", "")
		drawLittle(p, *answer.Little, &o)
	}
	return d.print(p.String())
}

// list answers with several.
func (d Desk) list(all []outlook.Outlook, draw func(*page, []outlook.Outlook)) error {
	if d.JSON() {
		return d.printJSON(struct {
			Systems []outlook.Outlook `json:"systems"`
		}{all})
	}
	p := d.page()
	draw(p, all)
	return d.print(p.String())
}

func (d Desk) littleAlone(l little, svg string) error {
	if svg != "" {
		return misuse(fmt.Errorf("--svg draws windows: name one with --preset, --compare or --term"))
	}
	if d.JSON() {
		return d.printJSON(struct {
			Little little `json:"little"`
		}{l})
	}
	p := d.page()
	drawLittle(p, l, nil)
	return d.print(p.String())
}

// picture draws windows into a file.
func (d Desk) picture(name string, all []outlook.Outlook) error {
	text := picture(all)
	if name == "-" {
		return d.print(text)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		return fmt.Errorf("--svg %s can't be written: %s", name, strings.TrimPrefix(err.Error(), "open "+name+": "))
	}
	return nil
}

package cli

import (
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/eiderhq/eider/server/internal/lab"
)

// demoCommand restarts and kills real processes under load, and counts what got lost.
func (a *app) demoCommand() *cobra.Command {
	var o lab.Options
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Restart and kill real processes under load and see what gets lost",
		Long: `Starts a registry, three instances and twenty callers as processes of their own, on ephemeral
loopback ports, and plays scenes with them, by default the first two:

  rollout     a rolling restart, again and again, beside the same restarts done the usual ways
  crash       kill -9 of one instance
  s8          two replicas, POSTs of 300 ms for 45 s, four ways to leave
  freeze      SIGSTOP of one instance for ten seconds; callers wait 1 s for an answer
  outage      kill -9 of the registry, which comes back from its disk
              meanwhile an instance starts, and a caller that has a list on disk
  wedge       the handler of one instance hangs, and its process beats on
  mixed       a rolling restart under native callers, pollers, and callers that know nothing
  hang        a dependency hangs at 500 requests a second, and a pool of 200 fills; the calls
              guarded by an error rate, by a breaker that sees calls that hang, by a bulkhead
  recovery    fifty callers trip together, and what they call comes back, cold; a breaker in
              each as most ship it, Eider's in each, one for all of them in the registry
  anyprogram  restarts of a program that knows nothing of Eider, by "eider run" and by
              "eider run --front", beside a sleep of 5 s; callers that know nothing among them

It exits with 1 when a promise breaks: a request lost in a restart; a call begun after the killed
instance's port refused that failed; a call begun after the frozen or hanging instance was suspect
that failed, a pick of it from then on, less than 60 % of the throughput, an instance taken for ended
that wasn't; in an outage, a call that failed, a caller that had nobody to call, one that started
meanwhile and wasn't answered, an instance that did and didn't serve at once or wasn't listed
afterwards; in a mixed fleet, a call that failed or a caller that a report doesn't name; when a dependency
hangs, a pool that an error rate doesn't let fill in 0.4 s, a request that doesn't need the dependency and
fails behind a bulkhead; in a recovery, more than one probe at once from callers that share a breaker, a
relapse, one that isn't back, or no relapse where each has its own; when any program is restarted, a call of
Eider's callers that failed, one of callers that know nothing behind the proxy, or without it more than two
above those beside the sleep. Counts are the callers' own, and of a
recovery the dependency's; each caller says when its own roster changed.`,
		Example: `  eider demo
  eider demo --short
  eider demo --scene rollout --requests 100000 --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			at := a.stage()
			o.JSON, o.Out, o.Err, o.Plain, o.Live, o.Size = at.JSON, at.Out, at.Err, at.Plain, at.Live, at.Size
			return staged(cmd.Context(), "demo", lab.Run(cmd.Context(), o))
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.Scenes, "scene", nil, "scenes to play, by commas: "+strings.Join(lab.Scenes(), ", ")+" (default rollout,crash)")
	f.IntVar(&o.Requests, "requests", 0, "rollout goes on until Eider's callers have made so many requests (default by time)")
	f.BoolVar(&o.Short, "short", false, "at most 25 s, of the default scenes")
	f.BoolVar(&o.Surge, "surge", false, "rollout starts the successor before the old instance leaves")
	f.Uint64Var(&o.Seed, "seed", 0, "of every choice (default random, printed)")
	cmd.AddCommand(&cobra.Command{
		Use: "child ROLE", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return lab.Child(cmd.Context(), args[0], os.Stdin, os.Stdout)
		},
	})
	return cmd
}

// stage is where the lab shows what it plays.
func (a *app) stage() lab.Options {
	return lab.Options{
		JSON: a.output == "json", Out: a.Out, Err: a.Err,
		Plain: a.Getenv("NO_COLOR") != "",
		Live:  term.IsTerminal(int(os.Stderr.Fd())) && a.Getenv("TERM") != "dumb",
		Size: func() (width, height int) {
			width, height, err := term.GetSize(int(os.Stderr.Fd()))
			if err != nil {
				return 100, 40
			}
			return width, height
		},
	}
}

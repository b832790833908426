package launch

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eiderhq/eider"
)

// Leave is the command of a preStop hook; name is how it is called, for its examples. The format of the answer is asked
// for when it runs; nil means that the command has a flag of its own for it.
func Leave(name string, format func() string) *cobra.Command {
	s, k := &socketLeave{}, &kubeLeave{}
	own := "table"
	cmd := &cobra.Command{
		Use:   "leave [flags]",
		Short: "Have a program leave, as a preStop hook that needs no shell",
		Long:  longLeave,
		Example: strings.ReplaceAll(`  EIDER_CONTROL=eider-orders eider leave --wait
  eider leave --control eider-orders --wait --timeout 45s
  eider leave --kube --service orders
  eider leave --kube --service orders --lb alb --grace 60s`, "eider leave", name),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			as := format()
			if as != "table" && as != "json" {
				return &eider.Error{Kind: eider.Invalid, Err: fmt.Errorf("--output %q is neither table nor json", as)}
			}
			if err := stray(k.on, s.own, k.own); err != nil {
				return err
			}
			if k.on {
				return k.run(cmd, as == "json")
			}
			return s.run(cmd, as == "json")
		},
	}
	s.flags(cmd.Flags())
	k.flags(cmd.Flags())
	if format == nil {
		format = func() string { return own }
		cmd.Flags().StringVarP(&own, "output", "o", own, "`FORMAT` of the answer: table, which is a line, or json")
	}
	return cmd
}

const longLeave = `Have the program leave that listens on the abstract socket named by EIDER_CONTROL: one with
drain.Config.Control set, or that eider run runs with --control. With --wait it returns when the
pause is over: SIGTERM may come. It may be called again at any time, and needs no shell, no file
system and no address, but the same user, or root, and the same network namespace: any container
of the pod has that. docs/drain.md tells it all.

It says one line. It exits with 0 when the program is leaving, or with --wait when the pause is
over, 1 when it didn't end well (no answer in time, or callers were left), 2 when the command
line is wrong, 3 when nobody listens there, 6 when the socket is another user's.

With --kube there is no registry: it waits until this pod is ready in none of its Services'
EndpointSlices, and then for as long as nodes and load balancers may take from there on, which no
pod can see. The program serves on meanwhile, and hears of nothing. docs/kubernetes.md tells it
all, and has the Role that it needs. Whatever keeps it from seeing, it pauses for all that a pod's
removal takes, and says why: a hook that ends at once costs requests. It exits with 0 when it has
seen the pod leave, 1 when the grace or a signal ended the pause first, 2 when its settings are
wrong, 3 when the API couldn't be asked, 4 when no slice names the pod, 6 when it may not ask.`

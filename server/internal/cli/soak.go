package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/eiderhq/eider/server/internal/lab"
)

// soakCommand kills the registry again and again while instances are restarted under load.
func (a *app) soakCommand() *cobra.Command {
	var s lab.Soak
	var seed uint64
	cmd := &cobra.Command{
		Use:   "soak",
		Short: "Kill the registry again and again while instances are restarted under load",
		Long: `Starts a registry that keeps its memory on disk, instances (each a process) and callers (each a
handle and a connection of its own, twenty in a process) on ephemeral loopback ports; kills the
registry with SIGKILL every few seconds and starts it again where it was; and restarts instances all
the while, several at a time.

At the end it holds what callers wrote down (whom they tried, and when; whom their rosters lost)
against what instances say of their departures, and asks the registry nothing but whom it took for
ended. It exits with 1 if a call failed, if an instance whose process lived was lost by a roster or
ended by the registry, if a caller picked an instance after a barrier that said it had let go, or if
a departure lost something by its own word.

The usual sizes need about 3 GB of memory; two cores bear them.`,
		Example: `  eider soak
  eider soak --for 1m --callers 40 --instances 10
  eider soak --json | jq .soak.failed`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o := a.stage()
			o.Seed = seed
			return staged(cmd.Context(), "soak", lab.RunSoak(cmd.Context(), s, o))
		},
	}
	f := cmd.Flags()
	f.DurationVar(&s.For, "for", 10*time.Minute, "how long; restarts that have begun by then are waited for")
	f.DurationVar(&s.KillEvery, "kill-every", 5*time.Second, "the registry is killed so often")
	f.IntVar(&s.Callers, "callers", 200, "callers, twenty in a process")
	f.IntVar(&s.Instances, "instances", 50, "instances, each a process")
	f.IntVar(&s.Restarting, "restarting", 4, "so many instances are restarted at a time")
	f.DurationVar(&s.Think, "think", time.Second, "a caller waits so long between calls, on average")
	f.Uint64Var(&seed, "seed", 0, "of every choice (default random, printed)")
	return cmd
}

// staged says how what the lab plays has ended.
func staged(ctx context.Context, what string, err error) error {
	switch {
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return errors.New("interrupted; every process that the " + what + " started has ended")
	case errors.Is(err, lab.ErrOptions):
		return usageError(err)
	}
	return err
}

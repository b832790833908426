package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/eiderhq/eider/server/internal/offline"
)

// desk is where the commands that need no server put their answers.
func (a *app) desk() offline.Desk {
	return offline.Desk{Out: a.Out, JSON: func() bool { return a.output == "json" }, Colour: a.colour, Width: func() int { return a.table().width }}
}

// misused gives what that room calls a misuse its exit code.
func misused(cmd *cobra.Command) *cobra.Command {
	run, args := cmd.RunE, cmd.Args
	coded := func(err error) error {
		if fault, ok := errors.AsType[*offline.Misuse](err); ok {
			return usageError(fault)
		}
		return err
	}
	cmd.RunE = func(cmd *cobra.Command, words []string) error { return coded(run(cmd, words)) }
	cmd.Args = func(cmd *cobra.Command, words []string) error { return coded(args(cmd, words)) }
	return cmd
}

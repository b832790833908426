package cli

import (
	"github.com/spf13/cobra"

	"github.com/eiderhq/eider/server/internal/launch"
)

// runCommand is of the room that a small binary has too. What follows the program is the program's.
func runCommand() *cobra.Command {
	cmd := launch.Run("eider run")
	cmd.GroupID = "run"
	return cmd
}

// leaveCommand is likewise.
func (a *app) leaveCommand() *cobra.Command {
	cmd := launch.Leave("eider leave", func() string { return a.output })
	cmd.GroupID = "run"
	return cmd
}

package cli

import (
	"github.com/spf13/cobra"

	"github.com/eiderhq/eider/server/internal/offline"
)

// lintCommand is of the room that needs no server.
func (a *app) lintCommand() *cobra.Command {
	cmd := offline.Lint(a.desk(), a.Version, func() string { return a.output })
	cmd.Annotations = map[string]string{moreFormats: "sarif"}
	return cmd
}

package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/eiderhq/eider/server/internal/offline"
)

// lintCommand is of the room that needs no server.
func (a *app) lintCommand() *cobra.Command {
	cmd := offline.Lint(a.desk(), a.Version, func() string { return a.output })
	cmd.Annotations = map[string]string{moreFormats: "sarif"}
	cmd.Flags().StringVarP(&a.output, "output", "o", "table", "`FORMAT` of the answer: "+strings.Join(offline.LintFormats(), ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(offline.LintFormats(), cobra.ShellCompDirectiveNoFileComp)) // it fails for an unknown flag only
	return cmd
}

package cli

import (
	"github.com/spf13/cobra"

	"github.com/eiderhq/eider/server/internal/offline"
)

// desk is where the commands that need no server put their answers.
func (a *app) desk() offline.Desk {
	return offline.Desk{Out: a.Out, JSON: func() bool { return a.output == "json" }, Colour: a.colour, Width: func() int { return a.table().width }}
}

func (a *app) windowCommand() *cobra.Command { return offline.Window(a.desk()) }

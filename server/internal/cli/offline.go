package cli

import (
	"context"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/eiderhq/eider/server/internal/offline"
	"github.com/eiderhq/eider/server/internal/outlook"
)

// desk is where the commands that need no server put their answers.
func (a *app) desk() offline.Desk {
	return offline.Desk{Out: a.Out, JSON: func() bool { return a.output == "json" }, Colour: a.colour, Width: func() int { return a.table().width }}
}

// windowCommand asks a registry for --service alone.
func (a *app) windowCommand() *cobra.Command {
	cmd := offline.Window(a.desk(), func(ctx context.Context, service string) (live outlook.Live, err error) {
		c, err := a.client()
		if err != nil {
			return live, err
		}
		defer c.close()
		_, err = c.fetch(ctx, question{path: "/v1/window", query: url.Values{"service": {service}}}, &live)
		return live, err
	})
	a.addressFlags(cmd)
	_ = cmd.RegisterFlagCompletionFunc("service", a.completeService) // it fails for an unknown flag only
	return cmd
}

package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/eiderhq/eider/server/internal/node"
	"github.com/eiderhq/eider/server/internal/notify"
)

// listening is what `eider server --json` prints once it serves.
type listening struct {
	Ready   bool   `json:"ready"`
	GRPC    string `json:"grpc"`
	HTTP    string `json:"http"`
	Metrics string `json:"metrics,omitempty"` // if they have an address of their own
}

func (a *app) serverCommand() *cobra.Command {
	var s node.Settings
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run a registry on this machine",
		Long: `Run a registry, until Ctrl-C or SIGTERM stops it in order: its clients are told to come
back, and nobody is suspected. A second signal ends it at once.

It listens on loopback, where everybody may do everything. Beyond it, it asks for TLS
(--cert, --key) and for who is let in (--tokens); docs/security.md has the five commands
that set that up.

After a restart the processes attach again by themselves, and until they have had the
time to, their callers keep the list that they have. With --data it remembers besides
who was there, who was leaving and for whom a drain has to wait: docs/memory.md.

Every flag is also an environment variable (--log-format is EIDER_LOG_FORMAT) and a line
of the file that --config names (log-format: json). A flag rules over the variable, the
variable over the file. Log lines go to standard error; with --json one object with the
addresses goes to standard output once the registry serves. systemd is told likewise
(Type=notify), and its watchdog for as long as the node answers itself: deploy/systemd.`,
		Example: `  eider server
  eider server --grpc 127.0.0.1:0 --http 127.0.0.1:0 --json
  eider server --data /var/lib/eider
  eider server --config eider.yaml --log-format json
  EIDER_LEASE=10s eider server`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.Load(a.Getenv); err != nil {
				return err
			}
			log := s.Logger(a.Err)
			n, err := node.New(node.Config{Settings: s, Version: built(a.Version).Version, Logger: log})
			if err != nil {
				return err
			}
			return a.serve(cmd.Context(), n, s.Data, log)
		},
	}
	s.Flags(cmd.Flags())
	return cmd
}

// kept says what a restart brings back.
func kept(data string) string {
	if data == "" {
		return "nothing is kept across a restart, since there is no --data"
	}
	return "what it knows is kept in " + data
}

// serve runs the node until ctx ends, and says once it serves.
func (a *app) serve(ctx context.Context, n *node.Node, data string, log *slog.Logger) error {
	// The first signal ends ctx and asks the node to stop. The second isn't caught anymore and ends the
	// process: never the other way round, or a second one that comes at once would be lost.
	asked := ctx
	ctx, over := context.WithCancel(context.WithoutCancel(asked))
	defer context.AfterFunc(asked, func() {
		signal.Reset(os.Interrupt, syscall.SIGTERM)
		over()
	})()
	if asked.Err() != nil {
		over()
	}
	var announcing sync.WaitGroup
	announcing.Go(func() {
		service := notify.Open(log)
		select {
		case <-ctx.Done():
			service.Stopping("stops before it has served")
			return
		case <-n.Ready():
		}
		service.Ready(fmt.Sprintf("serves, grpc %s http %s", n.Addrs().GRPC, n.Addrs().HTTP))
		announcing.Go(func() {
			service.Watch(ctx, n.Answers)
			<-ctx.Done()
			service.Stopping("tells its clients to come back")
		})
		log.Info("eider: " + n.Reach() + ", and " + kept(data) + "; `eider services` asks it")
		if a.output == "json" {
			addrs := n.Addrs()
			at := listening{Ready: true, GRPC: addrs.GRPC.String(), HTTP: addrs.HTTP.String()}
			if addrs.Metrics != nil {
				at.Metrics = addrs.Metrics.String()
			}
			if err := a.writeJSON(at, false); err != nil {
				log.Error("eider: nobody can be told the addresses", "err", err)
			}
		}
	})
	err := n.Run(ctx)
	over()
	announcing.Wait()
	return err
}

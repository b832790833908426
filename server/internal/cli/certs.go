package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eiderhq/eider/server/internal/access"
)

func (a *app) certsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "certs",
		Short: "Make an authority and certificates for trying",
		Example: `  eider certs init
  eider certs init /etc/eider/certs --host registry.example`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("`eider certs` has no command %q; init is one", args[0])
			}
			return cmd.Help()
		},
	}
	cmd.AddCommand(a.certsInitCommand())
	return cmd
}

func (a *app) certsInitCommand() *cobra.Command {
	var hosts []string
	var client string
	cmd := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write an authority, a certificate for a registry and one for a client into a folder (default eider-certs)",
		Long: `Write an authority (ca.pem), a certificate for a registry (server.pem) and one for a
client (client.pem), each with its key, into a folder, for their owner alone. Nothing is
overwritten. They are for trying, valid for 90 days: where it counts, use your own
authority, and keep its key elsewhere.`,
		Example: `  eider certs init
  eider certs init certs --host registry.example --host 10.0.0.7 --client orders`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage("one folder is enough; %q is another", args[1])
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			folder := "eider-certs"
			if len(args) == 1 {
				folder = args[0]
			}
			if err := access.CheckName(client); err != nil {
				return usage("--client: %w", err)
			}
			m, err := access.Mint(folder, slices.Concat(usualHosts(), hosts), client, time.Now())
			if err != nil {
				return &exit{exitFailure, err}
			}
			if a.output == "json" {
				return a.writeJSON(m, true)
			}
			return a.print(fmt.Sprintf(`The files are in %s, valid for 90 days. Then:

  eider tokens add NAME --tokens eider.tokens --role read --out NAME.token
  eider server --cert %s --key %s --tokens eider.tokens
  eider services --http https://localhost:8761 --tls-ca %s --token-file NAME.token
`, folder, m.Server, m.ServerKey, m.CA))
		},
	}
	cmd.Flags().StringArrayVar(&hosts, "host", nil, "`NAME` or address that clients reach the registry by, besides localhost, the loopback addresses and this host's name; may be given again")
	cmd.Flags().StringVar(&client, "client", "client", "`NAME` in the client's certificate")
	return cmd
}

// usualHosts are names that a registry on this machine is reached by.
func usualHosts() []string {
	hosts := []string{"localhost", "127.0.0.1", "::1"}
	if name, err := os.Hostname(); err == nil && name != "" && !strings.EqualFold(name, "localhost") {
		hosts = append(hosts, name)
	}
	return hosts
}

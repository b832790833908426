// Package cli is the eider command: it parses what a person typed, asks a registry's HTTP port, and answers with a
// table, JSON, or a sentence that says what to do next.
//
// Every question is an observer's: nothing asked here ever delays a drain.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/launch"
)

// Process is what a command runs in.
type Process struct {
	Args     []string // without the program's name
	Getenv   func(string) string
	Out, Err io.Writer
	Terminal bool           // Out is one: colours, and watched tables are drawn in place
	Width    func() int     // columns of the terminal, which tables are fitted to; nil or 0 means any
	Zone     *time.Location // for times in tables; nil means time.Local
	Version  string         // set by the build; "" means what Go recorded

	// Dial replaces the network; nil means TCP. For tests and tunnels.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

// Main runs the command that this process was started for and returns its exit code.
func Main(version string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return Process{Args: os.Args[1:], Getenv: os.Getenv, Out: os.Stdout, Err: os.Stderr,
		Terminal: term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("TERM") != "dumb", Width: columns, Version: version}.Run(ctx)
}

// columns asks the terminal, each time anew: it may be resized.
func columns() int {
	width, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// Run runs one command until it has ended, or ctx: that is how to end what follows or serves.
func (p Process) Run(ctx context.Context) int {
	a := &app{Process: p}
	root := a.root()
	root.SetArgs(p.Args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	return a.explain(cmd, misspelt(root, p.Args, err))
}

// app is one run of a command.
type app struct {
	Process
	output string // table or json
	json   bool   // --json
	http   string // --http

	tlsCA     string // --tls-ca
	tokenFile string // --token-file
}

// introduction is what a newcomer reads first.
const introduction = `Eider answers one question for every caller in a fleet: who can I call, right now?
It keeps the answer right while instances start, leave, crash and come back, and it
lets an instance leave without losing a request: the pause before it stops ends when
the last caller has let go of it, not after a guessed sleep.

Try this first:

  eider demo                   real processes restart and crash under load; see what gets lost
  eider window                 how long others' departed instances are still called; no registry needed

Then, in two terminals:

  eider server                 a registry on this machine, ports 8761 (HTTP) and 8762 (gRPC)
  eider services               what it knows

And look closer:

  eider instances orders -w    who serves orders, redrawn as it changes
  eider callers orders         who calls orders, and how far behind they are
  eider drains -w              who is leaving, and whom that waits for
  eider events -f              what happens, as it happens
  eider hold orders/1          have callers leave one alone, until eider release orders/1`

func (a *app) root() *cobra.Command {
	version := false
	root := &cobra.Command{
		Use:           "eider",
		Short:         "A service registry whose restarts lose no request",
		Long:          introduction,
		SilenceErrors: true, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if version {
				return a.tellVersion()
			}
			return cmd.Help()
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return a.checkOutput(cmd)
		},
	}
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), "{{if .Runnable}}\n  {{.UseLine}}{{end}}", "{{if and .Runnable .HasParent}}\n  {{.UseLine}}{{end}}", 1))
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.SetFlagErrorFunc(flagFault)
	root.Flags().BoolVarP(&version, "version", "v", false, "tell which version this is, as the command of that name does")
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	flags := root.PersistentFlags()
	flags.StringVarP(&a.output, "output", "o", "table", "`FORMAT` of the answer: table or json")
	flags.BoolVar(&a.json, "json", false, "short for --output json")
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp)) // it fails for an unknown flag only
	root.AddGroup(&cobra.Group{ID: "run", Title: "Run:"}, &cobra.Group{ID: "ask", Title: "Ask a registry:"}, &cobra.Group{ID: "access", Title: "Say who may:"},
		&cobra.Group{ID: "know", Title: "Know the number (no registry needed):"})
	for _, cmd := range []*cobra.Command{a.servicesCommand(), a.instancesCommand(), a.callersCommand(), a.breakersCommand(), a.drainsCommand(), a.eventsCommand(),
		a.holdCommand(), a.releaseCommand()} {
		cmd.GroupID = "ask"
		a.addressFlags(cmd)
		for _, one := range cmd.Commands() {
			a.addressFlags(one)
		}
		root.AddCommand(cmd)
	}
	for _, cmd := range []*cobra.Command{a.certsCommand(), a.tokensCommand()} {
		cmd.GroupID = "access"
		root.AddCommand(cmd)
	}
	for _, cmd := range []*cobra.Command{a.windowCommand(), a.lintCommand()} {
		cmd.GroupID = "know"
		root.AddCommand(cmd)
	}
	root.AddCommand(a.serverCommand(), a.demoCommand(), a.soakCommand())
	for _, cmd := range root.Commands() {
		if cmd.GroupID == "" {
			cmd.GroupID = "run"
			cmd.Args = noArguments
		}
	}
	root.AddCommand(runCommand(), a.leaveCommand(), a.versionCommand())
	typed(root)
	return root
}

// addressFlags are those of a command that asks a registry.
func (a *app) addressFlags(cmd *cobra.Command) {
	a.proofFlags(cmd)
	cmd.Flags().StringVar(&a.http, "http", "", "`ADDRESS` of the registry's HTTP port, host:port or URL (default $EIDER_HTTP, else 127.0.0.1:8761)")
}

// typed gives every error that a command returns an exit code; those without are the parser's own.
func typed(cmd *cobra.Command) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			err := run(cmd, args)
			_, ours := errors.AsType[*exit](err)
			_, house := errors.AsType[*eider.Error](err)
			_, over := errors.AsType[*launch.Ended](err)
			if err == nil || ours || house || over {
				return err
			}
			return &exit{exitFailure, err}
		}
	}
	for _, sub := range cmd.Commands() {
		typed(sub)
	}
}

// moreFormats is the annotation of a command that names what it takes for --output besides table and json.
const moreFormats = "formats"

func (a *app) checkOutput(cmd *cobra.Command) error {
	known := cmd.Annotations[moreFormats] != "" && slices.Contains(strings.Fields(cmd.Annotations[moreFormats]), a.output)
	switch {
	case a.output != "table" && a.output != "json" && !known:
		if more := cmd.Annotations[moreFormats]; more != "" {
			return usage("--output %q is none of table, json, %s", a.output, more)
		}
		return usage("--output %q is neither table nor json", a.output)
	case a.json:
		a.output = "json"
	}
	return nil
}

// answer prints v as JSON, or what draw writes.
func (a *app) answer(v any, draw func(*table)) error {
	if a.output == "json" {
		return a.writeJSON(v, true)
	}
	t := a.table()
	draw(t)
	return a.print(t.String())
}

// table returns an empty one for this command's person.
func (a *app) table() *table {
	t := &table{colour: a.colour()}
	if a.Terminal && a.Width != nil {
		t.width = a.Width()
	}
	return t
}

func (a *app) print(text string) error {
	if _, err := io.WriteString(a.Out, text); err != nil {
		return &exit{exitFailure, fmt.Errorf("the answer can't be written: %w", err)}
	}
	return nil
}

// colour tells whether statuses are coloured: on a terminal whose owner hasn't said NO_COLOR.
func (a *app) colour() bool { return a.Terminal && a.Getenv("NO_COLOR") == "" }

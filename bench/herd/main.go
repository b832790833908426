// Command herd has thousands of clients start at once, and lose their registry at once: the SDK's against a node as it
// comes, beside clients without jitter and backoff against a node that admits everybody.
//
//	go run ./herd                 10,000 clients
//	go run ./herd -clients 2000
//
// Each client registers an instance and follows a service, on a connection of its own; all of a kind share one process.
// The open files that a process may have bound their number.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/eiderhq/eider/bench"
)

func main() {
	bench.Role()
	clients := flag.Int("clients", 10_000, "clients")
	flag.Parse()
	if err := run(*clients); err != nil {
		fmt.Fprintln(os.Stderr, "herd:", err)
		os.Exit(1)
	}
}

func run(clients int) error {
	if clients < 1 || clients > 50_000 {
		return fmt.Errorf("%d clients: 1 to 50000", clients)
	}
	ours, err := bench.HerdOurs(clients)
	if err != nil {
		return fmt.Errorf("the SDK: %w", err)
	}
	raw, err := bench.HerdRaw(clients)
	if err != nil {
		return fmt.Errorf("raw clients: %w", err)
	}
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return err
	}
	fmt.Printf("%d clients; load average at the end %s\n%-46s %12s %12s %12s %12s\n", clients, strings.Fields(string(load))[0], "", "start: SDK", "raw", "killed: SDK", "raw")
	row := func(what string, figure func(bench.HerdFigures) string) {
		fmt.Printf("%-46s %12s %12s %12s %12s\n", what, figure(ours.Start), figure(raw.Start), figure(ours.Killed), figure(raw.Killed))
	}
	row("until the node served", func(f bench.HerdFigures) string { return round(f.Away) })
	row("until the last client was back", func(f bench.HerdFigures) string { return round(f.Back) })
	row("until 99 of 100 were", func(f bench.HerdFigures) string { return round(f.Most) })
	row("connections dialled", func(f bench.HerdFigures) string { return fmt.Sprint(f.Dials) })
	row("the same, in the fullest second", func(f bench.HerdFigures) string { return fmt.Sprint(f.PeakDials) })
	row("clients back in the fullest second", func(f bench.HerdFigures) string { return fmt.Sprint(f.PeakBack) })
	row("told to come back later", func(f bench.HerdFigures) string { return fmt.Sprint(f.Limited) })
	row("slowest answer to somebody else", func(f bench.HerdFigures) string { return round(f.Slowest) })
	row("answers to somebody else, of those failed", func(f bench.HerdFigures) string { return fmt.Sprintf("%d, %d", f.Asked, f.Failed) })
	row("the node's processor time", func(f bench.HerdFigures) string { return round(f.CPU) })
	row("the node's peak memory", func(f bench.HerdFigures) string { return fmt.Sprintf("%d MiB", f.Peak>>20) })
	return nil
}

func round(d time.Duration) string { return d.Round(10 * time.Millisecond).String() }

// Command gates measures Eider beside its peers, in turns in one run, and holds the ratios against the gates.
//
//	go run ./gates                   every gate
//	go run ./gates -only fan-out     those whose name contains this
//	go run ./gates -callers 1000 -rounds 40
//	go run ./gates -slack 1.5        on a machine that nobody knows
//
// It exits with 1 when a gate is missed. Ratios gate; times depend on the machine and are only recorded.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/eiderhq/eider/bench"
	"github.com/eiderhq/eider/bench/breakers"
)

func main() {
	bench.Role()
	only := flag.String("only", "", "only gates whose name contains this")
	callers := flag.Int("callers", 1000, "callers of the fan-out gates")
	rounds := flag.Int("rounds", 30, "counted rounds a gate")
	slack := flag.Float64("slack", 1, "a ratio may be so many times its gate; above 1, what this machine can't measure is said and no more")
	flag.Parse()
	missed := 0
	fmt.Printf("%-75s %16s %16s %6s %5s %5s\n", "", "eider", "peer", "ratio", "gate", "cpu")
	for _, g := range bench.Gates() {
		if !strings.Contains(g.Name, *only) {
			continue
		}
		start := time.Now()
		r, err := g.Measure(bench.Size{Callers: *callers, Rounds: *rounds})
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", g.Name, err)
			if *slack <= 1 || !errors.Is(err, breakers.ErrUnmeasured) {
				missed++
			}
			continue
		}
		verdict := "ok"
		if r.Ratio() > g.Most**slack {
			verdict = "MISSED"
			missed++
		}
		used := ""
		if r.CPU > 0 {
			used = fmt.Sprintf("%.2f", r.CPU)
		}
		fmt.Printf("%-75s %16s %16s %6.2f %5.2f %5s  %s (%.0fs) %s\n", g.Name, r.Eider, r.Peer, r.Ratio(), g.Most, used, verdict, time.Since(start).Seconds(), r.Note)
	}
	if missed > 0 {
		os.Exit(1)
	}
}

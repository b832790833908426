// Command gates measures Eider beside its peers, in turns in one run, and holds the ratios against the gates.
//
//	go run ./gates                   every gate
//	go run ./gates -only fan-out     those whose name contains this
//	go run ./gates -callers 1000 -rounds 40
//
// It exits with 1 when a gate is missed. Ratios gate; times depend on the machine and are only recorded.
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
	only := flag.String("only", "", "only gates whose name contains this")
	callers := flag.Int("callers", 1000, "callers of the fan-out gates")
	rounds := flag.Int("rounds", 30, "counted rounds a gate")
	flag.Parse()
	missed := 0
	fmt.Printf("%-62s %12s %12s %7s %7s\n", "", "eider", "peer", "ratio", "gate")
	for _, g := range bench.Gates(*callers, *rounds) {
		if !strings.Contains(g.Name, *only) {
			continue
		}
		start := time.Now()
		r, err := g.Measure()
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", g.Name, err)
			missed++
			continue
		}
		verdict := "ok"
		if r.Ratio() > g.Most {
			verdict = "MISSED"
			missed++
		}
		fmt.Printf("%-62s %12s %12s %7.2f %7.2f  %s (%.0fs)\n", g.Name, r.Eider, r.Peer, r.Ratio(), g.Most, verdict, time.Since(start).Seconds())
	}
	if missed > 0 {
		os.Exit(1)
	}
}

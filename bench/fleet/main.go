// Command fleet measures what a breaker that callers share costs, and how soon all have it, beside gobreaker's over the same Redis.
//
//	go run ./fleet                 every table
//	go run ./fleet -only gobreaker those whose name contains this
//
// It needs a redis-server (Debian: redis-server).
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/eiderhq/eider/bench"
)

func main() {
	bench.Role()
	only := flag.String("only", "", "only tables whose name contains this")
	flag.Parse()
	failed := false
	for _, t := range bench.FleetTables() {
		if !strings.Contains(t.Name, *only) {
			continue
		}
		fmt.Printf("\n%s\n", t.Name)
		rows, err := t.Measure()
		for _, r := range rows {
			fmt.Printf("  %-75s %s\n", r.What, r.Figure)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", t.Name, err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

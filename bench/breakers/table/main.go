// Command table measures all breakers beside each other and prints what docs/benchmarks.md has of them.
//
//	go run ./breakers/table                      every path on every stage; about a minute
//	go run ./breakers/table -only eider,floor    those whose name contains one of these
//	go run ./breakers/table -rounds 1000
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/eiderhq/eider/bench/breakers"
)

var paths = []breakers.Path{breakers.Success, breakers.Mixed, breakers.Open}

// weighed is how many breakers are made to know what one holds.
const weighed = 10_000

func main() {
	only := flag.String("only", "", "only subjects whose name contains one of these, separated by commas")
	rounds := flag.Int("rounds", 100, "counted turns of each subject on each path and stage")
	stage := flag.String("stage", "", "only stages whose name contains this, and no allocations: serial, two Ps, 64 goroutines")
	flag.Parse()
	subjects := slices.DeleteFunc(breakers.Subjects(), func(s breakers.Subject) bool {
		return !slices.ContainsFunc(strings.Split(*only, ","), func(part string) bool { return strings.Contains(s.Name, part) })
	})
	err := speed(subjects, *stage, *rounds)
	if err == nil && *stage == "" {
		err = weight(subjects)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// speed prints a table a stage: a row a subject, and in each cell the least, the median, and the median of processor time.
func speed(subjects []breakers.Subject, only string, rounds int) error {
	for _, stage := range breakers.Stages() {
		if !strings.Contains(stage.Name, only) {
			continue
		}
		rows := map[string][]string{}
		head := []string{stage.Name}
		for _, path := range paths {
			head = append(head, path.String())
			known := slices.DeleteFunc(slices.Clone(subjects), func(s breakers.Subject) bool { return !s.Knows(path) })
			took, err := breakers.Measure(known, path, stage, rounds)
			if err != nil {
				return err
			}
			for _, s := range subjects {
				cell := "–"
				if i := slices.IndexFunc(known, func(k breakers.Subject) bool { return k.Name == s.Name }); i >= 0 {
					cell = fmt.Sprintf("%s / %s / %s", number(took[i].Min), number(took[i].Median), number(took[i].CPU))
				}
				rows[s.Name] = append(rows[s.Name], cell)
			}
		}
		table(head)
		for _, s := range subjects {
			row(append([]string{s.Name}, rows[s.Name]...))
		}
		fmt.Println()
	}
	return nil
}

// weight prints what calls allocate and what a breaker holds.
func weight(subjects []breakers.Subject) error {
	table([]string{"bytes, allocations a call", "success", "mixed", "open", "bytes of a breaker", "goroutines of one"})
	for _, s := range subjects {
		cells := []string{s.Name}
		for _, path := range paths {
			if !s.Knows(path) {
				cells = append(cells, "–")
				continue
			}
			n, bytes, err := breakers.Allocations(s, path)
			if err != nil {
				return err
			}
			cells = append(cells, fmt.Sprintf("%.0f, %.1f", bytes, n))
		}
		if bytes, goroutines, ok := breakers.Weight(s, weighed); ok {
			cells = append(cells, fmt.Sprintf("%.0f", bytes), fmt.Sprintf("%.0f", goroutines))
		} else {
			cells = append(cells, "–", "–")
		}
		row(cells)
	}
	return nil
}

func table(head []string) {
	row(head)
	row(slices.Repeat([]string{"---"}, len(head)))
}

func row(cells []string) { fmt.Println("| " + strings.Join(cells, " | ") + " |") }

func number(ns float64) string {
	if ns < 20 {
		return fmt.Sprintf("%.1f", ns)
	}
	return fmt.Sprintf("%.0f", ns)
}

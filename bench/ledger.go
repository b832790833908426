package bench

import (
	"errors"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// flat is how much more an operation may cost among a hundred times as many instances, over what the bare maps
// that it can't do without cost more among as many: those are the processor's caches, which a thousand fit into and
// a hundred thousand don't. An operation that walks over instances, or whose depth hangs on how many there are,
// touches memory that the maps don't.
const flat = 2

// ledgerTest runs what stands beside the ledger's code, which another module can't import, and returns its output.
func ledgerTest(args ...string) (string, error) {
	root, err := root()
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", append([]string{"test", "-count=1"}, append(args, "./internal/ledger")...)...)
	cmd.Dir = filepath.Join(root, "server")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return string(out), nil
}

// least finds the least number that a pattern's group matches: what else the machine does only adds.
func least(text, pattern string) (float64, error) {
	all := regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1)
	if all == nil {
		return 0, fmt.Errorf("no %s in:\n%s", pattern, text)
	}
	smallest := math.Inf(1)
	for _, found := range all {
		n, err := strconv.ParseFloat(found[1], 64)
		if err != nil {
			return 0, err
		}
		smallest = min(smallest, n)
	}
	return smallest, nil
}

// growth measures what an operation costs more at 100,000 instances than at 1,000, and what the bare one does.
func growth(bench string) (Result, error) {
	out, err := ledgerTest("-run", "^$", "-bench", "^Benchmark(Bare)?"+bench+"$", "-benchtime", "200ms", "-count", "5")
	if err != nil {
		return Result{}, err
	}
	var ns [2][3]float64
	var errs []error
	for i, name := range []string{bench, "Bare" + bench} {
		for j, n := range []string{"1000", "10000", "100000"} {
			var err error
			ns[i][j], err = least(out, "Benchmark"+name+"/"+n+`-\d+\s+\d+\s+([\d.]+) ns/op`)
			errs = append(errs, err)
		}
	}
	more := func(of [3]float64) Figure { return Figure{of[2] - of[0], "ns"} }
	note := fmt.Sprintf("at 1,000, 10,000, 100,000: %.0f, the bare maps %.0f ns", ns[0], ns[1])
	return Result{Eider: more(ns[0]), Peer: more(ns[1]), Note: note}, errors.Join(errs...)
}

func renewFlat(Size) (Result, error) { return growth("Renew") }
func applyFlat(Size) (Result, error) { return growth("Apply") }

func renewAllocations(Size) (Result, error) {
	out, err := ledgerTest("-run", "^$", "-bench", "^BenchmarkRenew$/^100000$", "-benchtime", "300ms", "-benchmem")
	if err != nil {
		return Result{}, err
	}
	n, err := least(out, `(\d+) allocs/op`)
	return Result{Eider: Figure{n, "allocations"}, Peer: Figure{1, "allocations"}}, err
}

func instanceBytes(Size) (Result, error) {
	out, err := ledgerTest("-run", "^TestMemoryOfAnInstance$", "-v")
	if err != nil {
		return Result{}, err
	}
	n, err := least(out, `(\d+) bytes an instance`)
	return Result{Eider: Figure{n, "bytes"}, Peer: Figure{1536, "bytes"}}, err
}

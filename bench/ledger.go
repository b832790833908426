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

// flat is how much dearer an operation may be with a hundred times as many instances. A walk over them would
// be a hundred times as dear; what is left is the processor's caches, which a thousand fit into. The bare maps that no
// table can do without are measured beside it: they show how much of the growth is the memory's.
const flat = 6

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

func sizes(bench string) (Result, error) {
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
	note := fmt.Sprintf("at 10,000 %.0f ns; the bare maps at each %.0f ns", ns[0][1], ns[1])
	return Result{Eider: Figure{ns[0][2], "ns"}, Peer: Figure{ns[0][0], "ns"}, Note: note}, errors.Join(errs...)
}

func renewFlat(Size) (Result, error) { return sizes("Renew") }
func applyFlat(Size) (Result, error) { return sizes("Apply") }

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

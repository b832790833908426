// Command mutate shows that tests can fail: it applies each testdata/mutants/*.patch by itself, runs
// the tests of its package, and expects red.
//
//	go run ./mutate [-since REV] [-only TEXT] [-budget TIME] [-jobs N]    from the tools folder
//
// A patch named for a case (d5-….patch) is tried first with the tests named for it (TestD5…), and with all of
// its package if those stay green. With -budget it takes as many as it can start in that time, another
// share with each commit.
//
// A patch takes one behaviour out of the code. Lines before "diff --git" that begin with # say which;
// "# run: ./server/internal/e2e -run TestX" names other tests than those of the patch's package. A
// mutant that doesn't apply, doesn't compile, or leaves the tests green is a failure. One that does runs once more,
// which tells whether its tests never see it or sometimes do, and what was run is told, to be repeated by hand.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

type mutant struct {
	patch string   // below the repository
	what  string   // the first comment line
	room  string   // the folder whose tests run
	args  []string // further arguments of go test
}

func main() {
	since := flag.String("since", "", "only mutants whose room changed since this revision")
	only := flag.String("only", "", "only mutants whose path contains this")
	budget := flag.Duration("budget", 0, "start no further mutant after this time; 0 means all")
	jobs := flag.Int("jobs", 2, "how many run at once")
	timeout := flag.Duration("timeout", 2*time.Minute, "for the tests of one mutant")
	flag.Parse()
	top, err := output("", "git", "rev-parse", "--show-toplevel")
	if err == nil {
		err = run(strings.TrimSpace(top), *since, *only, *budget, *jobs, *timeout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(top, since, only string, budget time.Duration, jobs int, timeout time.Duration) error {
	mutants, err := find(top, since, only)
	if err != nil {
		return err
	}
	if budget > 0 {
		if err := shuffle(top, mutants); err != nil {
			return err
		}
	}
	begun := time.Now()
	queue := make(chan mutant, len(mutants))
	for _, m := range mutants {
		queue <- m
	}
	close(queue)
	var mu sync.Mutex
	var failed []error
	left := 0
	var wg sync.WaitGroup
	for range jobs {
		wg.Go(func() {
			tree, err := copyTree(top)
			if err != nil {
				mu.Lock()
				failed = append(failed, err)
				mu.Unlock()
				return
			}
			defer os.RemoveAll(tree)
			for m := range queue {
				if budget > 0 && time.Since(begun) > budget {
					mu.Lock()
					left++
					mu.Unlock()
					continue
				}
				start := time.Now()
				verdict := m.try(tree, timeout)
				mu.Lock()
				if verdict != nil {
					failed = append(failed, fmt.Errorf("%s (%s): %w", m.patch, m.what, verdict))
					fmt.Printf("BAD  %s: %v\n", m.patch, verdict)
				} else {
					fmt.Printf("red  %s: %s (%.1fs)\n", m.patch, m.what, time.Since(start).Seconds())
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	fmt.Printf("%d mutants: %d killed, %d not, %d left to another run\n", len(mutants), len(mutants)-len(failed)-left, len(failed), left)
	return errors.Join(failed...)
}

// shuffle puts the mutants into an order of this commit's own.
func shuffle(top string, mutants []mutant) error {
	head, err := output(top, "git", "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	seed := sha256.Sum256([]byte(head))
	rand.New(rand.NewChaCha8(seed)).Shuffle(len(mutants), func(i, j int) { mutants[i], mutants[j] = mutants[j], mutants[i] })
	return nil
}

func find(top, since, only string) ([]mutant, error) {
	out, err := output(top, "git", "ls-files", "--cached", "--others", "--exclude-standard", "*testdata/mutants/*.patch")
	if err != nil {
		return nil, err
	}
	var changed []string
	if since != "" {
		diff, err := output(top, "git", "diff", "--name-only", since)
		if err != nil {
			return nil, err
		}
		for name := range strings.FieldsSeq(diff) {
			changed = append(changed, filepath.Dir(name))
		}
	}
	var mutants []mutant
	for patch := range strings.FieldsSeq(out) {
		m, touched, err := read(top, patch)
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted in the work tree
		}
		if err != nil {
			return nil, err
		}
		fresh := since == "" || slices.ContainsFunc(append(touched, m.room), func(folder string) bool { return slices.Contains(changed, folder) })
		if fresh && strings.Contains(patch, only) {
			mutants = append(mutants, m)
		}
	}
	return mutants, nil
}

// read also returns the folders that the patch touches.
func read(top, patch string) (mutant, []string, error) {
	text, err := os.ReadFile(filepath.Join(top, patch))
	if err != nil {
		return mutant{}, nil, err
	}
	m := mutant{patch: patch, what: "no comment", room: filepath.Dir(filepath.Dir(filepath.Dir(patch)))}
	var touched []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "# run:"); ok {
			fields := strings.Fields(rest)
			if len(fields) == 0 {
				return mutant{}, nil, fmt.Errorf("%s: '# run:' names no package", patch)
			}
			m.room, m.args = filepath.Clean(fields[0]), fields[1:]
		} else if rest, ok := strings.CutPrefix(line, "# "); ok && m.what == "no comment" {
			m.what = rest
		} else if rest, ok := strings.CutPrefix(line, "+++ b/"); ok {
			touched = append(touched, filepath.Dir(rest))
		}
	}
	return m, touched, nil
}

func (m mutant) try(tree string, timeout time.Duration) error {
	patch := filepath.Join(tree, m.patch)
	if _, err := output(tree, "git", "apply", "--unsafe-paths", "--whitespace=nowarn", patch); err != nil {
		return fmt.Errorf("doesn't apply: %w", err)
	}
	defer output(tree, "git", "apply", "-R", "--unsafe-paths", "--whitespace=nowarn", patch)
	room := filepath.Join(tree, m.room)
	if out, err := output(room, "go", "test", "-count=1", "-run", "^$", "."); err != nil {
		return fmt.Errorf("doesn't compile: %w\n%s", err, out)
	}
	if name := named(m.patch); name != "" && len(m.args) == 0 {
		if red, _ := test(room, timeout, "-run", name); red {
			return nil
		}
	}
	red, err := test(room, timeout, m.args...)
	if err != nil || red {
		return err
	}
	words := "the tests stay green, twice"
	if red, err = test(room, timeout, m.args...); err != nil {
		return err
	} else if red {
		words = "the tests are red only sometimes: green first, then red; they hang on time, chance or load"
	}
	return fmt.Errorf("%s; to repeat it: git apply %s && (cd %s && go %s)", words, m.patch, m.room, strings.Join(command(timeout, m.args), " "))
}

// command is what go is asked for.
func command(timeout time.Duration, args []string) []string {
	return append([]string{"test", "-count=1", "-failfast", "-timeout", timeout.String(), "."}, args...)
}

// named returns the pattern of the tests that are named for a patch's case, "" if it has none.
func named(patch string) string {
	id, _, _ := strings.Cut(filepath.Base(patch), "-")
	if len(id) < 2 || !strings.ContainsAny(id[:1], "drkDRK") || strings.Trim(id[1:], "0123456789") != "" {
		return ""
	}
	return "^Test" + strings.ToUpper(id) + "[A-Z]"
}

// test tells whether the tests of a room are red; an error means that they didn't run.
func test(room string, timeout time.Duration, args ...string) (red bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout+10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", command(timeout, args)...)
	cmd.Dir = room
	out, err := cmd.CombinedOutput()
	if err == nil {
		return false, nil
	}
	if !bytes.Contains(out, []byte("FAIL")) {
		return false, fmt.Errorf("the tests didn't run: %w\n%s", err, out)
	}
	return true, nil
}

// copyTree copies what git tracks or would track to a folder of its own, so that the work tree is never touched.
func copyTree(top string) (string, error) {
	tree, err := os.MkdirTemp("", "eider-mutate-")
	if err != nil {
		return "", err
	}
	list, err := output(top, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return "", err
	}
	for name := range strings.SplitSeq(strings.TrimRight(list, "\x00"), "\x00") {
		source, target := filepath.Join(top, name), filepath.Join(tree, name)
		info, err := os.Lstat(source)
		if err != nil || !info.Mode().IsRegular() {
			continue // deleted in the work tree, or a link
		}
		text, err := os.ReadFile(source)
		if err != nil {
			return "", err
		}
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(target, text, info.Mode().Perm()); err != nil {
			return "", err
		}
	}
	_, err = output(tree, "git", "init", "-q")
	return tree, err
}

func output(folder, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = folder
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}

package lab

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/eiderhq/eider/internal/recovery"
)

// recovered is a scene that kept its promise, but for what a test changes.
func recovered(but func(*Recovery)) *Recovery {
	back := 3.2
	r := &Recovery{Local: recovery.Result{Parallel: 50, Relapses: 6}, Fleet: recovery.Result{Parallel: 1, Back: &back}}
	but(r)
	return r
}

func bigRecovery() *Recovery {
	r := recovered(func(r *Recovery) { r.Watched, r.Setup = 30, strings.Repeat("x", 70) })
	r.Guarded = recovery.Result{Parallel: 50, Relapses: 123, Probes: 123456}
	return r
}

func TestRecoveryTellsNeverFromSoon(t *testing.T) {
	var out strings.Builder
	bigRecovery().print(&out)
	for _, want := range []string{"not in 30 s\n", "    3.2 s\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// Behind its server a dependency is what it is without: callers hear when it is down, and are cut off when it dies.
func TestADependencyOverHTTP(t *testing.T) {
	d := recovery.NewDependency()
	defer d.Close()
	call, end, err := overHTTP(d)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	if err := call(t.Context()); err != nil {
		t.Errorf("it is warm, and says %v", err)
	}
	d.Break()
	if err := call(t.Context()); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("it is down, and says %v", err)
	}
	d.Mend()
	all := make(chan error)
	calls := 0
	for ; d.Tally().Relapses == 0 && calls < recovery.Callers; calls++ {
		go func() { all <- call(t.Context()) }()
		<-time.After(time.Millisecond)
	}
	cut := 0
	for range calls {
		if errors.Is(<-all, io.EOF) {
			cut++
		}
	}
	if cut <= recovery.AtOnce {
		t.Errorf("%d of %d calls were cut off by its death, want more than %d", cut, calls, recovery.AtOnce)
	}
}

package breaker

import (
	"context"
	"runtime"
	"testing"
	"time"
)

func TestCallsAllocateNothing(t *testing.T) {
	ctx := context.Background()
	well := func(context.Context) error { return nil }
	badly := func(context.Context) error { return errTest }
	value := func(context.Context) (int, error) { return 42, nil }
	for name, c := range map[string]Config{"timed": {}, "bare": {SlowLimit: -1}, "in time": {Within: time.Minute}, "large": {Window: mostWindow}} {
		c.FailureRate = -1
		b, open := New(c), New(c)
		open.Report(Refused)
		for what, f := range map[string]func(){
			"Allow and Settle":    func() { p, _ := b.Allow(); p.Settle(Success) },
			"a failure":           func() { p, _ := b.Allow(); p.Settle(Failure) },
			"Do":                  func() { _ = b.Do(ctx, well) },
			"Do that fails":       func() { _ = b.Do(ctx, badly) },
			"Call":                func() { _, _ = Call(ctx, b, value) },
			"Report":              func() { b.Report(Failure) },
			"Admits and State":    func() { _, _ = b.Admits(), b.State() },
			"Snapshot":            func() { _ = b.Snapshot() },
			"a rejection":         func() { _, _ = open.Allow() },
			"a rejection of Do":   func() { _ = open.Do(ctx, well) },
			"a rejection of Call": func() { _, _ = Call(ctx, open, value) },
		} {
			if n := testing.AllocsPerRun(200, f); n != 0 {
				t.Errorf("%s, %s: %v allocations", name, what, n)
			}
		}
	}
}

// A caller has one for each instance that it knows.
func TestABreakerIsSmall(t *testing.T) {
	const n = 2000
	all := make([]*Breaker, n)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range all {
		all[i] = New(Config{Window: 100})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / n
	runtime.KeepAlive(all)
	t.Logf("%d bytes", each)
	if each > 520 { // 512, and what else the process has allocated meanwhile
		t.Errorf("a breaker takes %d bytes", each)
	}
}

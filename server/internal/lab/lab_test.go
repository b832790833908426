package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eiderhq/eider"
)

func TestFailuresAreSortedByKind(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("Post: dial tcp: %w", syscall.ECONNREFUSED), whyRefused},
		{fmt.Errorf("Post: %w", io.EOF), whyCut},
		{fmt.Errorf("Post: %w", io.ErrUnexpectedEOF), whyCut},
		{fmt.Errorf("Post: %w", syscall.ECONNRESET), whyCut},
		{fmt.Errorf("Post: %w", syscall.EPIPE), whyCut},
		{errors.New("http: server closed idle connection"), whyCut},
		{fmt.Errorf("Post: %w", context.DeadlineExceeded), whyTimeout},
		{fmt.Errorf("read: %w", os.ErrDeadlineExceeded), whyTimeout},
		{errTwice, whyTwice},
		{errors.New("status 503"), whyOther},
	} {
		if got := why(c.err); got != c.want {
			t.Errorf("%v is %s, want %s", c.err, got, c.want)
		}
	}
}

// cut_in_flight is what was written to a connection opened before the dead port first refused; whatever else
// failed should have gone elsewhere.
func TestCrashCountsByTheConnectionsAge(t *testing.T) {
	refused := time.Unix(0, 1000)
	for _, c := range []struct {
		name           string
		f              failure
		cut, failedNew int
	}{
		{"written to an old connection", failure{Begun: 900, Opened: 500}, 1, 0},
		{"begun later, written to an old connection", failure{Begun: 1100, Opened: 500}, 1, 0},
		{"never written", failure{Begun: 1100}, 0, 1},
		{"written to a new connection", failure{Begun: 1100, Opened: 1050}, 0, 1},
	} {
		var crash Crash
		crash.count(c.f, refused)
		if crash.Cut != c.cut || crash.FailedNew != c.failedNew {
			t.Errorf("%s: cut %d, failed_new %d; want %d, %d", c.name, crash.Cut, crash.FailedNew, c.cut, c.failedNew)
		}
	}
}

func TestBrokenPromisesAreNamed(t *testing.T) {
	began := Blind{Answered: 1, Serves: 1, Listed: 1, Known: 1}
	kept := Result{Rollout: &Rollout{Way: Way{Requests: 10, Restarts: 1}}, Crash: &Crash{Requests: 10, Cut: 3}, S8: &S8{Ways: []Way{{}, {Failed: 9}}},
		Freeze: &Freeze{Requests: 10, Stuck: 3, Throughput: 0.6, ToSuspect: 1, ToCure: 1},
		Outage: &Outage{Instances: 3, Restored: 3, Reattached: 1, Trusted: 1, Blind: began}, Wedge: &Wedge{Stuck: 3, ToSuspect: 1, ToCure: 1}, Mixed: &Mixed{Requests: 1, Restarts: 1}, Hang: hanging(func(*Hang) {}), Recovery: recovered(func(*Recovery) {}), AnyProgram: restarted(func(*AnyProgram) {})}
	if broken := kept.Broken(); len(broken) != 0 {
		t.Errorf("kept promises are called broken: %q", broken)
	}
	for name, r := range map[string]Result{
		"a lost request":       {Rollout: &Rollout{Way: Way{Requests: 10, Restarts: 1, Failed: 1}}},
		"nothing restarted":    {Rollout: &Rollout{Way: Way{Requests: 10}}},
		"nothing asked":        {Rollout: &Rollout{Way: Way{Restarts: 1}}},
		"a call to the dead":   {Crash: &Crash{FailedNew: 1}},
		"a lost request in s8": {S8: &S8{Ways: []Way{{Failed: 1}}}},
		"a call to the frozen": {Freeze: &Freeze{Failed: 1, Throughput: 1, ToSuspect: 1, ToCure: 1}},
		"a pick of the frozen": {Freeze: &Freeze{LatePicks: 1, Throughput: 1, ToSuspect: 1, ToCure: 1}},
		"half the throughput":  {Freeze: &Freeze{Throughput: 0.59, ToSuspect: 1, ToCure: 1}},
		"failed in an outage":  {Outage: &Outage{Failed: 1, Reattached: 1, Trusted: 1, Blind: began}},
		"an emptied roster":    {Outage: &Outage{Emptied: 1, Reattached: 1, Trusted: 1, Blind: began}},
		"a lost instance":      {Outage: &Outage{Lost: 1, Reattached: 1, Trusted: 1, Blind: began}},
		"nothing on disk":      {Outage: &Outage{Instances: 1, Reattached: 1, Trusted: 1, Blind: began}},
		"never reattached":     {Outage: &Outage{Trusted: 1, Blind: began}},
		"never trusted":        {Outage: &Outage{Reattached: 1, Blind: began}},
		"a start without list": {Outage: &Outage{Reattached: 1, Trusted: 1, Blind: Blind{Serves: 1, Listed: 1, Known: 1}}},
		"a start that waits":   {Outage: &Outage{Reattached: 1, Trusted: 1, Blind: Blind{Answered: 1, Listed: 1, Known: 1}}},
		"unlisted for good":    {Outage: &Outage{Reattached: 1, Trusted: 1, Blind: Blind{Answered: 1, Serves: 1, Known: 1}}},
		"unknown to somebody":  {Outage: &Outage{Reattached: 1, Trusted: 1, Blind: Blind{Answered: 1, Serves: 1, Listed: 1}}},
		"a call to the wedged": {Wedge: &Wedge{FailedAfter: 1, ToSuspect: 1, ToCure: 1}},
		"cut by the wedged":    {Wedge: &Wedge{Failed: 1, ToSuspect: 1, ToCure: 1}},
		"a pick of the wedged": {Wedge: &Wedge{LatePicks: 1, ToSuspect: 1, ToCure: 1}},
		"wedged unseen":        {Wedge: &Wedge{ToCure: 1}},
		"wedged for good":      {Wedge: &Wedge{ToSuspect: 1}},
		"wedged and ended":     {Wedge: &Wedge{Ended: 1, ToSuspect: 1, ToCure: 1}},
		"a cut stranger":       {Mixed: &Mixed{Requests: 1, Restarts: 1, UnknownFailed: 1}},
		"a cut poller":         {Mixed: &Mixed{Requests: 1, Restarts: 1, Failed: 1}},
		"who isn't named":      {Mixed: &Mixed{Requests: 1, Restarts: 1, Unnamed: []string{"unknown"}}},
		"no mixed restart":     {Mixed: &Mixed{Requests: 1}},
		"never suspected":      {Freeze: &Freeze{ToCure: 1}},
		"never cured":          {Freeze: &Freeze{Throughput: 1, ToSuspect: 1}},
		"a pool never full":    {Hang: hanging(func(h *Hang) { h.PoolFull.Plain = nil })},
		"a pool full at once":  {Hang: hanging(func(h *Hang) { *h.PoolFull.Plain = 299 })},
		"a pool full too late": {Hang: hanging(func(h *Hang) { *h.PoolFull.Plain = 501 })},
		"nobody was hurt":      {Hang: hanging(func(h *Hang) { h.InnocentFailed.Plain = 0 })},
		"a hurt innocent":      {Hang: hanging(func(h *Hang) { h.InnocentFailed.Bulkhead = 1 })},
		"a second probe":       {Recovery: recovered(func(r *Recovery) { r.Fleet.Parallel = 2 })},
		"nobody tried":         {Recovery: recovered(func(r *Recovery) { r.Fleet.Parallel = 0 })},
		"pushed over by all":   {Recovery: recovered(func(r *Recovery) { r.Fleet.Relapses = 1 })},
		"never all back":       {Recovery: recovered(func(r *Recovery) { r.Fleet.Back = nil })},
		"no herd":              {Recovery: recovered(func(r *Recovery) { r.Local.Parallel = 5 })},
		"a herd that it bears": {Recovery: recovered(func(r *Recovery) { r.Local.Relapses = 0 })},
		"hanging for good":     {Hang: hanging(func(h *Hang) { h.Back.Slow = 0 })},
		"ended while frozen":   {Freeze: &Freeze{FalseEvictions: 1, Throughput: 1, ToSuspect: 1, ToCure: 1}},
	} {
		if len(r.Broken()) != 1 {
			t.Errorf("%s: broken = %q", name, r.Broken())
		}
	}
}

// hanging is a scene that kept its promise, but for what a test changes.
func hanging(but func(*Hang)) *Hang {
	full := 300.0
	h := &Hang{PoolFull: ByGuard[*float64]{Plain: &full}, InnocentFailed: ByGuard[int]{Plain: 7}, Back: ByGuard[float64]{Plain: 1, Slow: 1, Bulkhead: 1}}
	but(h)
	return h
}

// Others read this object: names are the issue's own.
func TestResultHasTheNamedFields(t *testing.T) {
	var out strings.Builder
	r := Result{Rollout: &Rollout{Way: Way{Pause: &Pause{}}}, Crash: &Crash{}, Freeze: &Freeze{}, Outage: &Outage{}, Wedge: &Wedge{}, Mixed: &Mixed{WaitedFor: []string{}}, Hang: everFull(), Recovery: recovered(func(*Recovery) {}), AnyProgram: restarted(func(*AnyProgram) {})}
	r.Rollout.Usual.Sleep.Pause = &Pause{}
	if err := r.writeJSON(&out); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"rollout requests", "rollout failed", "rollout restarts", "rollout pause_ms p50", "rollout pause_ms max", "rollout cap_ms",
		"rollout usual plain requests", "rollout usual plain failed",
		"rollout usual sleep requests", "rollout usual sleep failed", "rollout usual sleep pause_ms",
		"crash requests", "crash failed_new", "crash cut_in_flight", "crash kill_to_published_ms", "crash last_pick_after_kill_ms",
		"freeze requests", "freeze failed", "freeze stuck", "freeze throughput_ratio", "freeze false_evictions", "freeze max_ms",
		"outage requests", "outage failed", "outage emptied_rosters", "outage reattached_ms", "outage started_blind answered_ms", "outage started_blind listed_ms", "wedge to_suspect_ms", "wedge failed_after",
		"mixed requests", "mixed failed", "mixed unknown_failed", "mixed pause_ms", "mixed waited_for",
		"hang pool_full_ms plain", "hang pool_full_ms slow", "hang pool_full_ms bulkhead", "hang innocent_failed plain", "hang innocent_failed slow", "hang innocent_failed bulkhead",
		"recovery local max_parallel_probes", "recovery guarded relapses", "recovery fleet max_parallel_probes", "recovery fleet relapses", "recovery fleet back_s",
		"anyprogram run requests", "anyprogram run failed", "anyprogram run restarts", "anyprogram run pause_ms p50", "anyprogram run know_nothing requests", "anyprogram run know_nothing failed",
		"anyprogram front failed", "anyprogram front know_nothing failed", "anyprogram sleep failed",
	} {
		var at any = got
		for name := range strings.FieldsSeq(path) {
			at = at.(map[string]any)[name]
			if at == nil {
				t.Errorf("no %s in %s", path, out.String())
				break
			}
		}
	}
	if strings.Count(out.String(), "\n") != 1 {
		t.Error("it isn't one object on one line")
	}
}

func TestTallyAddsUp(t *testing.T) {
	y := newTally()
	y.hear(line{Kind: "tick", OK: 3, By: map[string]int{"1": 2, "2": 1}, Picks: map[string]int64{"80": 7}})
	y.hear(line{Kind: "tick", OK: 1, By: map[string]int{"2": 1}, Picks: map[string]int64{"80": 5}})
	y.hear(line{Kind: "failed", Failure: &failure{Why: whyCut, Begun: 9, Target: "80"}})
	c := y.counts(time.Now())
	if c.OK != 4 || c.Failed != 1 || c.requests() != 5 || c.By["2"] != 2 || c.Kinds[whyCut] != 1 || y.lastTryOf("127.0.0.1:80") != 9 {
		t.Errorf("counts = %+v, last try %d", c, y.lastTryOf("127.0.0.1:80"))
	}
}

func TestWindowForgets(t *testing.T) {
	var w window
	start := time.UnixMilli(1_000_000)
	w.add(start, 5, map[string]int{"1": 5})
	rate, by := w.read(start.Add(100 * time.Millisecond))
	if len(rate) != 29 || rate[28] != 50 || by["1"] != 5 {
		t.Errorf("a tenth later: %v, %v", rate, by)
	}
	if _, by := w.read(start.Add(2 * time.Second)); by["1"] != 0 {
		t.Errorf("two seconds later: %v", by)
	}
	if rate, _ := w.read(start.Add(time.Hour)); strings.Contains(fmt.Sprint(rate), "50") {
		t.Errorf("an hour later: %v", rate)
	}
}

func TestFramesFitTheTerminal(t *testing.T) {
	state := fleetState{way: wayEider, counts: counts{OK: 100, Rate: []int{0, 5, 10}, ByRate: map[string]int{"1": 10}},
		rows: []instanceState{{"1", "DRAINING  waiting for 3 of 20: " + strings.Repeat("x", 200)}}}
	for _, columns := range []int{40, 80, 120} {
		var out strings.Builder
		d := display{out: &out, live: true, size: func() (int, int) { return columns, 40 }}
		d.draw(d.lay("rollout", time.Second, []fleetState{state}))
		for line := range strings.Lines(strings.ReplaceAll(out.String(), "\x1b[2K", "")) {
			if n := visible(strings.TrimRight(line, "\n")); n > columns {
				t.Errorf("%d columns of %d: %q", n, columns, line)
			}
		}
		if !strings.Contains(out.String(), "0 failed") && columns >= 80 {
			t.Errorf("what has failed is cut at %d columns", columns)
		}
	}
	var said strings.Builder
	d := display{out: &said, live: true, size: func() (int, int) { return 20, 40 }}
	d.say("outage: starting dozens of processes …")
	d.draw([]string{"a frame"})
	if want := "\x1b[2Koutage: starting doz" + plain + "\n\x1b[1A\x1b[2Ka frame\n"; said.String() != want {
		t.Errorf("what begins: %q, want %q", said.String(), want)
	}
	low := display{size: func() (int, int) { return 80, 4 }}
	if lines := low.lay("rollout", time.Second, []fleetState{state, state, state, state}); len(lines) > 3 {
		t.Errorf("%d lines on a terminal of 4", len(lines))
	}
	text := strings.Join(render("rollout", time.Second, []fleetState{state}, 120), "\n")
	for _, want := range []string{"eider demo · rollout", "orders/1", "DRAINING", "waiting for 3 of 20", "0 failed", " ▄█"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "registry") {
		t.Errorf("a registry that serves isn't drawn:\n%s", text)
	}
	state.lost = "killed (SIGKILL)"
	lines := render("outage", time.Second, []fleetState{state}, 80)
	if want := "    registry   " + strings.Repeat(" ", 20+9) + state.lost; bare(lines[4]) != want {
		t.Errorf("a registry that is away: %q, want %q", bare(lines[4]), want)
	}
}

// A terminal has 80 columns until somebody widens it.
func TestTablesFit80Columns(t *testing.T) {
	way := Way{Name: wayEider, Requests: 123456, Failed: 12345, Restarts: 1234, Pause: &Pause{P50: 5000, Max: 5026},
		Kinds: map[string]int{whyRefused: 1234, whyCut: 123, whyTimeout: 12, whyTwice: 1, whyOther: 1}}
	setup := plan{instances: 3, callers: 20, work: 30 * time.Millisecond, think: 10 * time.Millisecond}.sentence()
	r := Result{Rollout: &Rollout{Way: way, Cap: 8000, Setup: setup, Surge: true}, Crash: &Crash{Requests: 123456, Published: 12345, Setup: setup},
		S8: &S8{Ways: []Way{way}, Setup: setup}, Freeze: &Freeze{Requests: 123456, ToSuspect: 12345, Setup: setup},
		Outage: &Outage{Requests: 123456, Reattached: 12345, Setup: setup, Blind: Blind{Answered: 12345, Requests: 12345, Failed: 12345}}, Wedge: &Wedge{Requests: 123456, ToSuspect: 12345, Setup: setup},
		Mixed: &Mixed{Requests: 123456, Pause: 8000, Setup: setup, WaitedFor: []string{
			"poller-0: fetches the list each 2s; capped after 3.001s", "unknown: says neither who it is nor that it has let go, so its pause of 8s is waited for"}}, Hang: everFull(), Recovery: bigRecovery(), AnyProgram: &AnyProgram{Setup: setup, Run: Supervised{way, way}, Front: Supervised{way, way}, Sleep: way}}
	*r.Hang = Hang{PoolFull: r.Hang.PoolFull, Setup: "625 requests/s to a front", InnocentFailed: ByGuard[int]{1234, 1234, 1234}, Innocent: ByGuard[int]{12345, 12345, 12345},
		Failed: ByGuard[int]{123456, 123456, 123456}, Back: ByGuard[float64]{12345, 12345, 12345}}
	r.Rollout.Usual.Plain, r.Rollout.Usual.Sleep = way, way
	for _, scene := range Scenes() {
		var out strings.Builder
		r.print(&out, scene)
		for line := range strings.Lines(out.String()) {
			if n := visible(strings.TrimRight(line, "\n")); n > 80 {
				t.Errorf("%s: %d columns: %s", scene, n, line)
			}
		}
	}
}

func visible(line string) int {
	n := 0
	for inside := false; line != ""; {
		r := []rune(line)[0]
		line = line[len(string(r)):]
		switch {
		case r == '\x1b':
			inside = true
		case inside:
			inside = r != 'm'
		default:
			n++
		}
	}
	return n
}

func TestUnknownScenesAreRefused(t *testing.T) {
	err := Run(t.Context(), Options{Scenes: []string{"rollout", "earthquake"}, Out: io.Discard, Err: io.Discard})
	if err == nil || !strings.Contains(err.Error(), `"earthquake"; choose from rollout, crash, s8`) {
		t.Errorf("err = %v", err)
	}
}

func TestAChildThatFailsIsQuoted(t *testing.T) {
	c, err := spawn("/bin/sh", "a shell", []string{"-c", "echo no luck >&2; exit 3"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.waitUp(t.Context()); err == nil || !strings.Contains(err.Error(), "no luck") {
		t.Errorf("err = %v", err)
	}
	c.stop()
}

// A timeout of a call begun before the suspicion is what freezing costs; anything else should have gone elsewhere.
func TestFreezeCountsByTheSuspicion(t *testing.T) {
	suspected := time.Unix(0, int64(time.Second))
	for _, c := range []struct {
		name          string
		f             failure
		stuck, failed int
	}{
		{"begun before, timed out", failure{Why: whyTimeout, Begun: int64(time.Second) - 1}, 1, 0},
		{"begun before, cut", failure{Why: whyCut, Begun: int64(time.Second) - 1}, 0, 1},
		{"begun after, timed out", failure{Why: whyTimeout, Begun: int64(time.Second + 2*sameInstant)}, 0, 1},
	} {
		var r Freeze
		if r.count(c.f, suspected); r.Stuck != c.stuck || r.Failed != c.failed {
			t.Errorf("%s: stuck %d, failed %d; want %d, %d", c.name, r.Stuck, r.Failed, c.stuck, c.failed)
		}
	}
}

func TestAnAudienceIsSureOnceEveryCallerIs(t *testing.T) {
	a := newAudience(2)
	a.hear(0, line{Kind: "saw", Saw: &sighting{ID: "1", Status: "UP", Doubt: "beats missed", At: 5}})
	if _, _, all := a.all("1", doubted); all {
		t.Error("one of two is all")
	}
	a.hear(1, line{Kind: "saw", Saw: &sighting{ID: "1", Status: "UP", Doubt: "beats missed", At: 9}})
	if first, last, all := a.all("1", doubted); !all || first.UnixNano() != 5 || last.UnixNano() != 9 {
		t.Errorf("first %v, last %v, all %v", first.UnixNano(), last.UnixNano(), all)
	}
	a.hear(1, line{Kind: "saw", Saw: &sighting{ID: "1", At: 11}})
	a.hear(0, line{Kind: "empty"})
	_, _, all := a.all("1", doubted)
	if emptied, missed := a.counts(); all || emptied != 1 || missed != 1 {
		t.Errorf("all %v, emptied %d, missed %d", all, emptied, missed)
	}
}

func TestWedgeCountsByTheSuspicion(t *testing.T) {
	suspected := time.Unix(0, int64(time.Second))
	for _, c := range []struct {
		name                 string
		f                    failure
		after, stuck, failed int
	}{
		{"begun before, timed out", failure{Why: whyTimeout, Begun: int64(time.Second) - 1}, 0, 1, 0},
		{"begun before, cut", failure{Why: whyCut, Begun: int64(time.Second) - 1}, 0, 0, 1},
		{"begun after, timed out", failure{Why: whyTimeout, Begun: int64(time.Second + 2*sameInstant)}, 1, 0, 0},
	} {
		var r Wedge
		if r.count(c.f, suspected); r.FailedAfter != c.after || r.Stuck != c.stuck || r.Failed != c.failed {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
}

func TestAGateHoldsUntilItOpens(t *testing.T) {
	var g gate
	g.pass()
	g.turn(true)
	passed := make(chan struct{})
	go func() { g.pass(); close(passed) }()
	select {
	case <-passed:
		t.Error("a shut gate lets through")
	case <-time.After(20 * time.Millisecond):
	}
	g.turn(false)
	<-passed
	g.pass()
}

// Nobody may have been lucky: who should have been waited for is named, or the promise is broken.
func TestMixedMissesWhoIsNotWaitedFor(t *testing.T) {
	var members []eider.Member
	for i := range mixedNative {
		members = append(members, eider.Member{Caller: fmt.Sprint("n", i), Kind: eider.Native, State: eider.LetGo, Settled: time.Duration(i) * time.Millisecond})
	}
	for i := range mixedPollers {
		members = append(members, eider.Member{Caller: fmt.Sprint("p", i), Kind: eider.Poller, State: eider.Polled, Every: pollerEvery})
	}
	members = append(members, eider.Member{Caller: "unknown", Kind: eider.UnknownCallers, State: eider.Capped, Cap: 8 * time.Second})
	var r Mixed
	if r.name(&departure{Members: members}); len(r.Unnamed) != 0 || len(r.WaitedFor) != mixedPollers+2 || !strings.Contains(joined(r.WaitedFor), "the last after 9ms") {
		t.Errorf("all are there: %+v", r)
	}
	for _, missing := range []int{0, mixedNative, len(members) - 1} {
		r = Mixed{}
		if r.name(&departure{Members: slices.Delete(slices.Clone(members), missing, missing+1)}); len(r.Unnamed) != 1 {
			t.Errorf("without %s: %q", members[missing].Caller, r.Unnamed)
		}
	}
}

func everFull() *Hang {
	ms := 1.0
	return &Hang{PoolFull: ByGuard[*float64]{&ms, &ms, &ms}}
}

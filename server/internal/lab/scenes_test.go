package lab_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/eiderhq/eider/server/internal/cli"
	"github.com/eiderhq/eider/server/internal/lab"
)

// TestMain lets this binary be the eider command too: scenes start their processes from it.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{"demo", "run", "server"}, os.Args[1]) {
		os.Exit(cli.Main("test"))
	}
	os.Exit(m.Run())
}

// build makes a static binary.
func build(t *testing.T, folder, binary string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-trimpath", "-o", binary, folder)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", folder, err, out)
	}
}

// play plays a scene in its short form, with real processes of a binary; "" means this one.
func play(t *testing.T, scene, binary string) lab.Result {
	t.Helper()
	if testing.Short() {
		t.Skip("starts dozens of processes")
	}
	var out, errs bytes.Buffer
	err := lab.Run(t.Context(), lab.Options{Scenes: []string{scene}, Short: true, Binary: binary, JSON: true, Out: &out, Err: &errs})
	t.Logf("%s%s", out.Bytes(), errs.Bytes())
	if err != nil {
		t.Error(err)
	}
	var r lab.Result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// An instance that is stopped for ten seconds is doubted by every caller before two beats and a half have passed
// (which is five seconds, and more only by what a busy machine adds), picked by nobody then, and loses nothing but the
// calls that were on their way.
func TestSceneFreeze(t *testing.T) {
	r := play(t, "freeze", "").Freeze
	if r == nil {
		t.Fatal("no freeze")
	}
	if r.Requests < 500 || r.Stuck == 0 || r.ToSuspect > milliseconds(7*time.Second) {
		t.Errorf("it shows little: %+v", r)
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// A registry that is killed and comes back from its disk is missed by nobody, also not by who starts meanwhile.
func TestSceneOutage(t *testing.T) {
	r := play(t, "outage", "").Outage
	if r == nil {
		t.Fatal("no outage")
	}
	if r.Requests < 300 || r.Restored != 3 || r.Away < 1000 || r.Blind.Requests == 0 {
		t.Errorf("it shows little: %+v", r)
	}
}

// An instance whose handler hangs is doubted by every caller although it beats, and trusted again once it answers.
func TestSceneWedge(t *testing.T) {
	r := play(t, "wedge", "").Wedge
	if r == nil {
		t.Fatal("no wedge")
	}
	if r.Requests < 300 || r.Stuck == 0 || r.ToSuspect < milliseconds(time.Second) {
		t.Errorf("it shows little: %+v", r)
	}
}

// Callers that know nothing, pollers and native ones: nobody is cut, and each is named with what it was waited for.
func TestSceneMixed(t *testing.T) {
	r := play(t, "mixed", "").Mixed
	if r == nil {
		t.Fatal("no mixed")
	}
	if r.Requests < 500 || r.Restarts != 2 || r.Pause < 7900 {
		t.Errorf("it shows little: %+v", r)
	}
}

// A dependency that hangs fills a pool behind an error rate; behind a breaker that sees it, or a bulkhead, nobody else
// notices.
func TestSceneHang(t *testing.T) {
	if testing.Short() {
		t.Skip("starts dozens of processes")
	}
	binary := filepath.Join(t.TempDir(), "eider")
	build(t, "../../cmd/eider", binary) // 500 requests/s through each of three fronts with the race detector fill their pools by itself
	r := play(t, "hang", binary).Hang
	if r == nil {
		t.Fatal("no hang")
	}
	if r.Requests < 3000 || r.Innocent.Bulkhead < 200 || r.Failed.Slow == 0 {
		t.Errorf("it shows little: %+v", r)
	}
}

// Fifty callers that share a breaker, kept by the registry, let what they call recover with one probe; those with
// breakers of their own push it over.
func TestSceneRecovery(t *testing.T) {
	r := play(t, "recovery", "").Recovery
	if r == nil {
		t.Fatal("no recovery")
	}
	if r.Fleet.Probes != 1 || r.Local.Probes < 50 || r.Fleet.Rejected < 50 {
		t.Errorf("it shows little: %+v", r)
	}
}

// A registry that is killed every two seconds, beside instances that are restarted all along: nothing fails, and no
// barrier is said to be reached while a caller still picks. The soak itself is `eider soak`, for ten minutes.
func TestSoakInShort(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a dozen processes")
	}
	var out, errs bytes.Buffer
	err := lab.RunSoak(t.Context(), lab.Soak{For: 12 * time.Second, KillEvery: 2 * time.Second, Callers: 40, Instances: 8, Think: 100 * time.Millisecond},
		lab.Options{JSON: true, Out: &out, Err: &errs})
	t.Logf("%s%s", out.Bytes(), errs.Bytes())
	if err != nil {
		t.Error(err)
	}
	var got struct{ Soak lab.Soaking }
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Soak.Kills < 3 || got.Soak.Restarts < 4 || got.Soak.Requests < 500 {
		t.Errorf("it shows little: %+v", got.Soak)
	}
}

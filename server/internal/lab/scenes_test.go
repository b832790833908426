package lab_test

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/eiderhq/eider/server/internal/cli"
	"github.com/eiderhq/eider/server/internal/lab"
)

// TestMain lets this binary be the eider command too: scenes start their processes from it.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "demo" || os.Args[1] == "server") {
		os.Exit(cli.Main("test"))
	}
	os.Exit(m.Run())
}

// play plays a scene in its short form, with real processes.
func play(t *testing.T, scene string) lab.Result {
	t.Helper()
	if testing.Short() {
		t.Skip("starts dozens of processes")
	}
	var out, errs bytes.Buffer
	err := lab.Run(t.Context(), lab.Options{Scenes: []string{scene}, Short: true, JSON: true, Out: &out, Err: &errs})
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
	r := play(t, "freeze").Freeze
	if r == nil {
		t.Fatal("no freeze")
	}
	if r.Requests < 500 || r.Stuck == 0 || r.ToSuspect > milliseconds(7*time.Second) {
		t.Errorf("it shows little: %+v", r)
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

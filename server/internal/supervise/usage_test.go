//go:build linux

package supervise_test

import (
	"os"
	"testing"
)

// S11: a budget that doesn't fit, and whatever else is wrong with the command line, is told before anything is started.
func TestS11FaultsAreToldBeforeTheStart(t *testing.T) {
	for want, flags := range map[string][]string{
		"exceed the grace of 5s":               {"--service", "orders=:8080", "--grace", "5s", "--in-flight", "10s"},
		"run: drain orders: InFlight: 10s":     {"--service", "orders=:8080", "--grace", "5s", "--in-flight", "10s"},
		"no service":                           {},
		"it is given twice":                    {"--service", "orders=:8080", "--service", "orders=:8081"},
		`"none" is none`:                       {"--service", "orders=:none"},
		"there is no --service admin":          {"--service", "orders=:8080", "--ready", "admin=tcp://:1"},
		"neither none nor on-failure":          {"--service", "orders=:8080", "--restart", "always"},
		"none that a program can end by":       {"--service", "orders=:8080", "--signal", "KILL"},
		"no URL to POST to":                    {"--service", "orders=:8080", "--on-leave-url", "/leaving"},
		"no time above 0; write it as in 8s":   {"--service", "orders=:8080", "--unknown", "0s"},
		`"foo" must be host:port`:              {"--service", "orders=:8080", "--registry", "foo"},
		"--check-every -1s is no time above 0": {"--service", "orders=:8080", "--check-every", "-1s"},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			r := command(t, "", ofProgram(t, program{Mute: true}, flags...), nil)
			r.says(want)
			if code := r.exit(); code != 2 {
				t.Errorf("it exits with %d, want 2", code)
			}
			if r.count("pid ") > 0 || r.count("the program is started") > 0 {
				t.Error("the program was started")
			}
		})
	}
}

// What can't be executed has the codes that env and shells give it.
func TestWhatCantBeExecuted(t *testing.T) {
	plain := t.TempDir() + "/plain"
	if err := os.WriteFile(plain, []byte("no program"), 0o700); err != nil {
		t.Fatal(err)
	}
	unfit := t.TempDir() + "/unfit"
	if err := os.WriteFile(unfit, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"/no/such/program": 127, "no-such-program-in-path": 127, plain: 126, unfit: 126, os.TempDir(): 126} {
		r := command(t, "", []string{"--service", "orders=" + freePort(t), "--registry", freePort(t), "--", name}, nil)
		if want == 126 {
			r.says("chmod +x")
		}
		if code := r.exit(); code != want {
			t.Errorf("%s: it exits with %d, want %d", name, code, want)
		}
	}
}

package eider_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/eiderhq/eider/internal/house"
)

func TestHouse(t *testing.T) {
	rules := house.Rules{
		Module: "github.com/eiderhq/eider",
		Exceptions: map[string]string{
			"eidergrpc/balancer.go:init": "gRPC finds a balancing policy by name in a map that only an init may write (docs/decisions/0010)",
			"drain/beside_test.go:Sleep": "its programs run in a bubble: see besides",
			"roster/fake_test.go:Sleep":  "its callers are in a bubble: see inWorld",
			"roster/leave_test.go:Sleep": "hooks of a world in a bubble",
			"roster/model_test.go:Sleep": "the script is played in a bubble",
		},
	}
	broken, err := rules.Check(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range broken {
		t.Error(line)
	}
}

// Whoever changes the code that a mutant takes out is told so at once, also of a mutant in another module.
func TestHouseMutantsApply(t *testing.T) {
	broken, err := house.Mutants(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range broken {
		t.Error(line)
	}
}

// A user who imports a pure room gets the standard library alone.
func TestHousePureRoomsAreStandardLibraryAlone(t *testing.T) {
	for _, room := range []string{".", "./window", "./retry", "./breaker", "./bulkhead", "./balance", "./meter"} {
		out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", room).CombinedOutput()
		if err != nil {
			t.Fatalf("go list %s: %v\n%s", room, err, out)
		}
		for dep := range strings.FieldsSeq(string(out)) {
			if !strings.HasPrefix(dep, "github.com/eiderhq/eider") {
				t.Errorf("%s pulls in %s", room, dep)
			}
		}
	}
}

// A user who imports the SDK never sees the server's dependencies.
func TestHouseSDKPullsInNoServer(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "./...").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	for dep := range strings.FieldsSeq(string(out)) {
		for _, banned := range []string{"github.com/eiderhq/eider/server", "github.com/prometheus", "go.etcd.io", "github.com/spf13", "github.com/envoyproxy",
			"go.opentelemetry.io/otel/sdk", "go.opentelemetry.io/otel/exporters", "go.opentelemetry.io/contrib"} {
			if strings.HasPrefix(dep, banned) {
				t.Errorf("the SDK pulls in %s", dep)
			}
		}
	}
}

package server_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/eiderhq/eider/internal/house"
)

func TestHouse(t *testing.T) {
	rules := house.Rules{
		Module: "github.com/eiderhq/eider/server",
		Exceptions: map[string]string{
			"cmd/eider/main.go:var version":      "the linker sets it: -ldflags \"-X main.version=…\"",
			"cmd/eider-lint/main.go:var version": "the linker sets it, as of cmd/eider",
			"cmd/eider-run/main.go:var version":  "the linker sets it, as of cmd/eider",
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

// eider-lint is downloaded by every run of somebody's CI: it pulls in neither gRPC nor what a registry needs.
func TestHouseLintIsSmall(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./cmd/eider-lint").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	const eider = "github.com/eiderhq/eider/"
	allowed := []string{strings.TrimSuffix(eider, "/"), eider + "window", eider + "internal/near", eider + "server/cmd/eider-lint", eider + "server/internal/offline", eider + "server/internal/outlook",
		eider + "server/internal/harmless", eider + "server/internal/balancers", eider + "server/internal/lint", "go.yaml.in/yaml/v3", "github.com/spf13/cobra", "github.com/spf13/pflag",
		"golang.org/x/term", "golang.org/x/sys/unix"} // how wide a terminal is
	for dep := range strings.FieldsSeq(string(out)) {
		if !slices.Contains(allowed, dep) {
			t.Errorf("eider-lint pulls in %s", dep)
		}
	}
}

// eider-run is in every image whose program it runs: it pulls in no server, no etcd, and nothing that measures one.
func TestHouseRunIsSmall(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "./cmd/eider-run").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	rooms := []string{"cmd/eider-run", "internal/launch", "internal/supervise", "internal/supervise/check", "internal/supervise/front", "internal/kube", "internal/balancers", "internal/notify", "internal/harmless"}
	for dep := range strings.FieldsSeq(string(out)) {
		for _, banned := range []string{"go.etcd.io", "github.com/prometheus", "k8s.io", "github.com/envoyproxy"} {
			if strings.HasPrefix(dep, banned) {
				t.Errorf("eider-run pulls in %s", dep)
			}
		}
		if room, ours := strings.CutPrefix(dep, "github.com/eiderhq/eider/server/"); ours && !slices.Contains(rooms, room) {
			t.Errorf("eider-run pulls in the room %s", room)
		}
	}
}

// The commands that need no server stay small, also in a binary of their own: no gRPC, no metrics, no registry.
func TestHouseOfflinePullsInNoServer(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "./internal/offline").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	for dep := range strings.FieldsSeq(string(out)) {
		for _, banned := range []string{"google.golang.org/", "github.com/prometheus", "github.com/eiderhq/eider/registry", "github.com/eiderhq/eider/server/internal/replica",
			"github.com/eiderhq/eider/server/internal/cli", "net/http"} {
			if strings.HasPrefix(dep, banned) {
				t.Errorf("internal/offline pulls in %s", dep)
			}
		}
	}
}

package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eiderhq/eider/registry"
	"github.com/eiderhq/eider/roster"
	"github.com/eiderhq/eider/server/internal/node"
)

// TestU5AProcessStartsWhileTheRegistryIsDead: one process has saved its list, the registry dies, and another process
// begins. It is an example as it stands, with an environment.
func TestU5AProcessStartsWhileTheRegistryIsDead(t *testing.T) {
	call := filepath.Join(t.TempDir(), "call")
	if out, err := exec.Command("go", "build", "-o", call, "github.com/eiderhq/eider/examples/call").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	rosters := filepath.Join(t.TempDir(), "rosters")
	n := startNode(t, node.Settings{})
	startMortal(t, n.grpc, "orders", "1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "paid") }))

	before := registry.Open(registry.Config{Addr: n.grpc, Rosters: rosters, Logger: quiet})
	defer before.Close()
	list := roster.Follow(before, "orders")
	if _, done, err := list.Pick(t.Context()); err != nil {
		t.Fatal(err)
	} else {
		done(nil)
	}
	list.Close() // it has saved what it knew

	n.stop()
	if c, err := net.Dial("tcp", n.grpc); err == nil {
		c.Close()
		t.Fatal("the registry is to be dead")
	}
	for i := range 3 {
		cmd := exec.Command(call)
		cmd.Env = append(os.Environ(), "EIDER_ADDR="+n.grpc, "EIDER_ROSTERS="+rosters)
		begun := time.Now()
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "200 OK paid") {
			t.Errorf("start %d: %v, it said %s", i, err, out)
		}
		if !strings.Contains(string(out), "picking from the list on disk") {
			t.Errorf("start %d: it didn't say that it has the list from disk: %s", i, out)
		}
		t.Logf("a process started while the registry is dead had its first answer after %s", time.Since(begun))
	}
}

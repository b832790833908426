package tools_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/eiderhq/eider/internal/house"
)

func TestHouse(t *testing.T) {
	broken, err := house.Rules{Module: "github.com/eiderhq/eider/tools"}.Check(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range broken {
		t.Error(line)
	}
}

// The committed code is what the committed .proto generates.
func TestHouseGeneratedCodeIsCurrent(t *testing.T) {
	out := t.TempDir()
	cmd := exec.Command("go", "run", "./protogen", "-out", out)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("protogen: %v\n%s", err, text)
	}
	for _, name := range []string{"eider.pb.go", "eider_grpc.pb.go"} {
		fresh, err := os.ReadFile(filepath.Join(out, "eider", "v1", name))
		if err != nil {
			t.Fatal(err)
		}
		committed, err := os.ReadFile(filepath.Join("..", "api", "eider", "v1", name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(fresh, committed) {
			t.Errorf("%s differs from what eider.proto generates: run make generate", name)
		}
	}
}

package server_test

import (
	"testing"

	"github.com/eiderhq/eider/internal/house"
)

func TestHouse(t *testing.T) {
	rules := house.Rules{
		Module: "github.com/eiderhq/eider/server",
		Exceptions: map[string]string{
			"cmd/eider/main.go:var version": "the linker sets it: -ldflags \"-X main.version=…\"",
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

package interop

import (
	"testing"

	"github.com/eiderhq/eider/internal/house"
)

func TestHouse(t *testing.T) {
	broken, err := house.Rules{Module: "github.com/eiderhq/eider/interop"}.Check(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range broken {
		t.Error(line)
	}
}

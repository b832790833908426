package panel

import (
	"errors"
	"testing"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/breaker/fleet"
)

// Who isn't an operator can't put another forced record in the place of one either: with another epoch it would have all callers part.
func TestAForcedRecordIsTheOperators(t *testing.T) {
	mem := fleet.NewMemory(0)
	p := New(mem, nil)
	r, err := fleet.Force(t.Context(), mem, "orders", breaker.ForcedOpen)
	if err != nil {
		t.Fatal(err)
	}
	r.Epoch++
	s := p.Look("orders")
	if _, swapped, err := p.Swap(t.Context(), "orders", s.Version, r.Bytes(), false); swapped || !isDenied(err) {
		t.Errorf("swapped %v, %v", swapped, err)
	}
	if _, swapped, err := p.Swap(t.Context(), "orders", s.Version, r.Bytes(), true); !swapped || err != nil {
		t.Errorf("an operator: swapped %v, %v", swapped, err)
	}
}

func isDenied(err error) bool {
	e, ok := errors.AsType[*eider.Error](err)
	return ok && e.Kind == eider.Denied
}

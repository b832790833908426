package eidergrpc

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/eiderhq/eider/drain"
	"github.com/eiderhq/eider/internal/control"
)

// A hook has a gRPC server leave as it has one of net/http.
func TestServeHearsHooks(t *testing.T) {
	name := fmt.Sprintf("eider-test-%016x", rand.Uint64())
	d := depart(t, &parrot{name: "a"}, drain.Config{Pause: 50 * time.Millisecond, Control: name})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	a, err := control.Leave(ctx, name, true)
	for errors.Is(err, control.ErrNobody) && ctx.Err() == nil { // it begins beside this
		<-time.After(time.Millisecond)
		a, err = control.Leave(ctx, name, true)
	}
	if err != nil || a.State != control.Left || a.EndedBy != string(drain.NoRegistry) || a.Pause < 50*time.Millisecond {
		t.Errorf("it answers %+v, %v", a, err)
	}
	select {
	case <-d.ended:
	case <-ctx.Done():
		t.Error("Serve doesn't return, though nothing is in flight")
	}
}

package redisstore_test

import (
	"testing"

	"github.com/eiderhq/eider/breaker/fleet"
	"github.com/eiderhq/eider/breaker/redisstore"
	"github.com/eiderhq/eider/internal/fleettest"
)

// B7: fifty callers, each with a client of its own.
func TestRecovery(t *testing.T) {
	s := start(t)
	fleettest.Recovery(t, func(int) fleet.Store { return redisstore.New(s.client(t), redisstore.Config{}) })
}

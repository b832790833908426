package etcdstore

import (
	"testing"

	"github.com/eiderhq/eider/breaker/fleet"
	"github.com/eiderhq/eider/internal/fleettest"
)

// B7: fifty callers, each with a store of its own, over one client.
func TestRecovery(t *testing.T) {
	client, config := common(t)
	fleettest.Recovery(t, func(int) fleet.Store { return New(client, config) })
}

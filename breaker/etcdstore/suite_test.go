package etcdstore

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/eiderhq/eider/internal/fleettest"
)

func TestSuite(t *testing.T) {
	fleettest.Suite(t, func(t *testing.T) fleettest.World {
		client, config := common(t)
		other, _ := common(t)
		return fleettest.World{
			Store:   New(client, config),
			Second:  New(other, config),
			NoClock: true,
			Flush: func(t *testing.T) {
				if _, err := other.Delete(t.Context(), config.Prefix+"/", clientv3.WithPrefix()); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
}

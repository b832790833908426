package bench

import (
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/eiderhq/eider/breaker/etcdstore"
	"github.com/eiderhq/eider/breaker/fleet"
	"github.com/eiderhq/eider/breaker/redisstore"
	"github.com/eiderhq/eider/registry"
)

// place is where a store is. Each caller opens a client of its own, as a process does.
type place struct {
	name string
	open func() (store fleet.Store, done func() error, err error)
	end  func() error
	sent *trips // what all clients have asked, where that is counted
}

// placed are the places that all callers have the state at: on this machine, or as far away as a way each takes.
func placed(each time.Duration) []func() (*place, error) {
	at := func(open func(time.Duration) (*place, error)) func() (*place, error) {
		return func() (*place, error) { return open(each) }
	}
	all := []func() (*place, error){at(registryPlace), at(redisPlace), at(etcdPlace)}
	if each == 0 {
		memory := func() (*place, error) {
			store := fleet.NewMemory(0)
			return &place{"memory", func() (fleet.Store, func() error, error) { return store, nil, nil }, nil, nil}, nil
		}
		all = append([]func() (*place, error){memory}, all...)
	}
	return all
}

// away is an address as far away as that; it is at its end when done.
func away(addr string, each time.Duration) (string, func(), error) {
	if each == 0 {
		return addr, func() {}, nil
	}
	f, err := openFar(addr, each)
	if err != nil {
		return "", nil, err
	}
	return f.addr(), f.Close, nil
}

func registryPlace(each time.Duration) (*place, error) {
	n, err := startNode("--fresh")
	if err != nil {
		return nil, err
	}
	addr, near, err := away(n.grpc, each)
	if err != nil {
		n.stop()
		return nil, err
	}
	p := &place{name: "registry"}
	p.open = func() (fleet.Store, func() error, error) {
		reg := registry.Open(registry.Config{Addr: addr, Logger: quiet()})
		return reg.Fleet(), reg.Close, nil
	}
	p.end = func() error { near(); n.stop(); return nil }
	return p, nil
}

func redisPlace(each time.Duration) (*place, error) {
	server, err := startRedis()
	if err != nil {
		return nil, err
	}
	return placeOf(server, each)
}

func placeOf(server *redisServer, each time.Duration) (*place, error) {
	addr, near, err := away(server.addr, each)
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	p := &place{name: "Redis", sent: new(trips)}
	p.open = func() (fleet.Store, func() error, error) {
		client := redis.NewClient(&redis.Options{Addr: addr})
		client.AddHook(p.sent)
		return redisstore.New(client, redisstore.Config{}), client.Close, nil
	}
	p.end = func() error { near(); return server.Close() }
	return p, nil
}

func etcdPlace(each time.Duration) (*place, error) {
	server, err := self("etcd")
	if err != nil {
		return nil, err
	}
	addr, near, err := away(server.addr, each)
	if err != nil {
		server.stop()
		return nil, err
	}
	p := &place{name: "etcd"}
	p.open = func() (fleet.Store, func() error, error) {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
		if err != nil {
			return nil, nil, err
		}
		return etcdstore.New(client, etcdstore.Config{}), client.Close, nil
	}
	p.end = func() error { near(); server.stop(); return nil }
	return p, nil
}

// fleetSoon measures over each store in turn: on this machine, where a round trip is nothing and what counts is the work for fifty
// callers on two processors, and 10 ms away, where round trips count.
func fleetSoon() ([]Row, error) {
	var rows []Row
	for _, each := range []time.Duration{0, 10 * time.Millisecond} {
		for _, open := range placed(each) {
			p, err := open()
			if err != nil {
				return rows, err
			}
			if each > 0 {
				p.name += fmt.Sprintf(", %v away", each)
			}
			more, err := soonest(p)
			rows = append(rows, more...)
			if err != nil {
				return rows, fmt.Errorf("%s: %w", p.name, err)
			}
		}
	}
	return rows, nil
}

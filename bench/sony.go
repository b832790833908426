package bench

import (
	"context"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

// sonyStore is what gobreaker's distributed breaker asks for, over Redis: its own store is in its repository and in none of its
// published versions. This one takes the same lock by the same library for the same five seconds, and reads and writes by GET and SET.
// It serves one call at a time, as theirs does.
type sonyStore struct {
	client *redis.Client
	locks  *redsync.Redsync
	held   *redsync.Mutex
	trips  trips
}

func newSonyStore(addr string) *sonyStore {
	client := redis.NewClient(&redis.Options{Addr: addr})
	s := &sonyStore{client: client, locks: redsync.New(goredis.NewPool(client))}
	client.AddHook(&s.trips)
	return s
}

// Lock is gobreaker's.
func (s *sonyStore) Lock(name string) error {
	s.held = s.locks.NewMutex(name, redsync.WithExpiry(5*time.Second))
	return s.held.Lock()
}

// Unlock is gobreaker's.
func (s *sonyStore) Unlock(string) error {
	ok, err := s.held.Unlock()
	if !ok && err == nil {
		err = errors.New("unlock failed")
	}
	return err
}

// GetData is gobreaker's.
func (s *sonyStore) GetData(name string) ([]byte, error) {
	return s.client.Get(context.Background(), name).Bytes()
}

// SetData is gobreaker's.
func (s *sonyStore) SetData(name string, data []byte) error {
	return s.client.Set(context.Background(), name, data, 0).Err()
}

// sonyCaller is one caller with a connection pool of its own, as a process has it.
type sonyCaller struct {
	store   *sonyStore
	breaker *gobreaker.DistributedCircuitBreaker[int]
}

func openSony(addr, name string, settings gobreaker.Settings) (*sonyCaller, error) {
	settings.Name = name
	c := &sonyCaller{store: newSonyStore(addr)}
	var err error
	if c.breaker, err = gobreaker.NewDistributedCircuitBreaker[int](c.store, settings); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Close ends its connections.
func (c *sonyCaller) Close() error { return c.store.client.Close() }

package etcdstore

import (
	"context"
	"fmt"
	"maps"
	"path"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/eiderhq/eider/breaker/fleet"
)

// meter counts requests by method, and bytes, without those of gRPC and HTTP/2.
type meter struct {
	mu       sync.Mutex
	requests map[string]int
	bytes    int
}

func (m *meter) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := invoke(ctx, method, req, reply, cc, opts...)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests[path.Base(method)]++
	for _, message := range []any{req, reply} {
		if message, ok := message.(proto.Message); ok {
			m.bytes += proto.Size(message)
		}
	}
	return err
}

func (m *meter) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	m.mu.Lock()
	m.requests[path.Base(method)]++
	m.mu.Unlock()
	return open(ctx, desc, cc, method, opts...)
}

// since returns what was asked since it was called last.
func (m *meter) since() (map[string]int, int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	requests, bytes := m.requests, m.bytes
	m.requests, m.bytes = map[string]int{}, 0
	return requests, bytes
}

func metered(t *testing.T) (*Store, *meter) {
	t.Helper()
	_, config := common(t)
	m := &meter{requests: map[string]int{}}
	c := settings(shared.member)
	c.DialOptions = []grpc.DialOption{grpc.WithChainUnaryInterceptor(m.unary), grpc.WithChainStreamInterceptor(m.stream)}
	client, err := clientv3.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return New(client, config), m
}

func TestCosts(t *testing.T) {
	s, m := metered(t)
	cost := func(what string, times int, each map[string]int, call func()) {
		t.Helper()
		m.since()
		for range times {
			call()
		}
		asked, bytes := m.since()
		want := map[string]int{}
		for method, n := range each {
			want[method] = n * times
		}
		if !maps.Equal(asked, want) {
			t.Errorf("%s, %d times: %v, want %v", what, times, asked, want)
		}
		t.Logf("%s: %d bytes", what, bytes/times)
	}
	seen := fleet.Sight{}
	record, count := fmt.Sprintf("%300d", 1), fmt.Sprintf("%100d", 1)
	cost("a store's first count", 1, map[string]int{"LeaseGrant": 1, "Txn": 2}, func() { tell(t, s, "orders", "a", count) })
	cost("a key's first record", 1, map[string]int{"LeaseGrant": 1, "Txn": 1}, func() { seen = swap(t, s, "orders", 0, record) })
	cost("a count", 20, map[string]int{"Txn": 1}, func() { _, _ = s.Tell(t.Context(), "orders", "a", []byte(count), false) })
	cost("a count's end", 1, map[string]int{"Txn": 1}, func() { _, _ = s.Tell(t.Context(), "orders", "a", nil, false) })
	cost("at rest", 20, map[string]int{"Txn": 1}, func() { _, _ = s.Tell(t.Context(), "orders", "a", nil, false) })
	cost("a first count after none", 1, map[string]int{"Txn": 2}, func() { tell(t, s, "orders", "a", count) })
	cost("a swap", 20, map[string]int{"Txn": 1}, func() { seen = swap(t, s, "orders", seen.Version, record) })
	for i := range 49 {
		tell(t, s, "orders", fmt.Sprint("caller ", i), count)
	}
	cost("with all of 50", 20, map[string]int{"Txn": 1}, func() { tell(t, s, "orders", "a", count) })
}

// A caller at rest costs no member a write to its log.
func TestAtRestNothingIsWritten(t *testing.T) {
	t.Parallel()
	etcd := cluster(t, 1)[0]
	s := New(dial(t, etcd), Config{})
	tell(t, s, "orders", "a", "1")
	tell(t, s, "orders", "a", "")
	index := func() uint64 {
		status, err := s.client.Status(t.Context(), etcd.client)
		if err != nil {
			t.Fatal(err)
		}
		return status.RaftIndex
	}
	before := index()
	for range 50 {
		tell(t, s, "orders", "a", "")
	}
	if wrote := index() - before; wrote > 10 { // etcd's own are few
		t.Errorf("50 times Tell at rest have written %d entries", wrote)
	}
	tell(t, s, "orders", "a", "2")
	tell(t, s, "orders", "a", "")
	if seen := tell(t, s, "orders", "b", ""); len(seen.Counts) != 0 {
		t.Errorf("taken away, once more: %+v", seen)
	}
}

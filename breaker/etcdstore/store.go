package etcdstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/eiderhq/eider/breaker/fleet"
)

// Config is what a [Store] can be told; its zero value works.
type Config struct {
	Prefix string // of all keys in etcd; "" means "eider/fleet". Who has another one is another fleet
	Most   int    // how many targets one Store remembers, 0 means 10,000, at most some 20 kB each; one more is refused while none has been quiet for fleet.Keep
}

// Store is a [fleet.Store] in etcd. Make it by [New]; it starts nothing and needs no end.
type Store struct {
	client *clientv3.Client
	prefix string
	book   book
	leases leases
	look   time.Duration // how often a watch looks for itself
	wait   time.Duration // for the answer to such a look
}

// New makes a store of a client, which stays the caller's own. See the package's comment for how to configure that.
func New(client *clientv3.Client, config Config) *Store {
	prefix, most := config.Prefix, config.Most
	if prefix == "" {
		prefix = "eider/fleet"
	}
	if most == 0 {
		most = 10_000
	}
	return &Store{
		client: client,
		prefix: strings.TrimSuffix(prefix, "/") + "/",
		book:   book{most: most, pages: map[string]*page{}},
		leases: leases{client: client, turn: make(chan struct{}, 1), keepCounts: fleet.KeepCounts, keep: fleet.Keep},
		look:   10 * time.Second,
		wait:   5 * time.Second,
	}
}

func (s *Store) record(key string) string { return s.prefix + url.PathEscape(key) + "/r" }
func (s *Store) counts(key string) string { return s.prefix + url.PathEscape(key) + "/c/" }

// Tell is [fleet.Store.Tell]: one request, and two for a caller's first count after none.
func (s *Store) Tell(ctx context.Context, key, caller string, count []byte, all bool) (fleet.Sight, error) {
	if err := fits(ctx, key, caller, count); err != nil {
		return fleet.Sight{}, err
	}
	p, err := s.book.at(key, time.Now())
	if err != nil {
		return fleet.Sight{}, err
	}
	var answer *clientv3.TxnResponse
	if len(count) == 0 {
		answer, err = s.takeAway(ctx, p, key, caller, all)
	} else {
		answer, err = s.put(ctx, p, key, caller, count, all)
	}
	if err != nil {
		return fleet.Sight{}, s.failed(ctx, "telling", key, err)
	}
	looked := answer.Responses[len(answer.Responses)-len(s.looks(key, all)):]
	seen, err := p.sight(looked[0].GetResponseRange().Kvs, time.Now())
	if err == nil && all {
		seen.Counts, err = p.told(looked[1].GetResponseRange().Kvs, s.counts(key), time.Now())
	}
	if err != nil {
		return fleet.Sight{}, s.failed(ctx, "telling", key, err)
	}
	s.leases.touch(ctx, p)
	return seen, nil
}

// looks is what every Tell asks for, after what it writes.
func (s *Store) looks(key string, all bool) []clientv3.Op {
	ops := []clientv3.Op{clientv3.OpGet(s.record(key))}
	if all {
		ops = append(ops, clientv3.OpGet(s.counts(key), clientv3.WithPrefix(), clientv3.WithLimit(2*fleet.MostCallers)))
	}
	return ops
}

// takeAway removes a count, once: a caller at rest only reads, which no member has to write to its disk.
func (s *Store) takeAway(ctx context.Context, p *page, key, caller string, all bool) (*clientv3.TxnResponse, error) {
	ops := s.looks(key, all)
	gone := p.isGone(caller)
	if !gone {
		ops = append([]clientv3.Op{clientv3.OpDelete(s.counts(key) + url.PathEscape(caller))}, ops...)
	}
	answer, err := s.client.Txn(ctx).Then(ops...).Commit()
	if err == nil && !gone {
		p.tookAway(caller)
	}
	return answer, err
}

// put writes a count in the place of what the caller told before. Who has none there is counted in first.
func (s *Store) put(ctx context.Context, p *page, key, caller string, count []byte, all bool) (*clientv3.TxnResponse, error) {
	looks, own := s.looks(key, all), s.counts(key)+url.PathEscape(caller)
	value := stamp(count)
	p.tells(caller)
	var lost clientv3.LeaseID
	for {
		lease, err := s.leases.ofCounts(ctx, lost)
		if err != nil {
			return nil, err
		}
		put := append([]clientv3.Op{clientv3.OpPut(own, value, clientv3.WithLease(lease))}, looks...)
		others := append([]clientv3.Op{clientv3.OpGet(s.counts(key), clientv3.WithPrefix(), clientv3.WithCountOnly())}, looks...)
		answer, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(own), ">", 0)).Then(put...).Else(others...).Commit()
		kept := err == nil && answer.Succeeded
		if err == nil && !kept && answer.Responses[0].GetResponseRange().Count < fleet.MostCallers {
			answer, err = s.client.Txn(ctx).Then(put...).Commit()
			kept = err == nil
		}
		if errors.Is(err, rpctypes.ErrLeaseNotFound) && lost == 0 {
			lost = lease
			continue
		}
		if kept {
			p.hasTold(caller, value, time.Now())
		}
		return answer, err
	}
}

// Swap is [fleet.Store.Swap]: one request; one more for the first record of a key (its lease), or to read a record that
// this Store hasn't seen.
func (s *Store) Swap(ctx context.Context, key string, version uint64, record []byte) (fleet.Sight, bool, error) {
	if err := fits(ctx, key, "", record); err != nil {
		return fleet.Sight{}, false, err
	}
	p, err := s.book.at(key, time.Now())
	if err != nil {
		return fleet.Sight{}, false, err
	}
	var seen fleet.Sight
	won := false
	if version == 0 {
		seen, won, err = s.create(ctx, p, key, stamp(record))
	} else {
		seen, won, err = s.replace(ctx, p, key, version, stamp(record))
	}
	if err != nil {
		return fleet.Sight{}, false, s.failed(ctx, "swapping the record", key, err)
	}
	s.leases.touch(ctx, p)
	return seen, won, nil
}

// create puts a record where there is none, on a lease of its own.
func (s *Store) create(ctx context.Context, p *page, key, value string) (fleet.Sight, bool, error) {
	for again := false; ; again = true {
		l, err := s.leases.ofRecord(ctx)
		if err != nil {
			return fleet.Sight{}, false, err
		}
		none := clientv3.Compare(clientv3.CreateRevision(s.record(key)), "=", 0)
		seen, won, err := s.swap(ctx, p, key, none, value, l.id, clientv3.WithLease(l.id))
		if errors.Is(err, rpctypes.ErrLeaseNotFound) && !again {
			continue
		}
		switch {
		case err != nil:
		case won:
			p.isKept(l)
		default:
			s.leases.unused(l)
		}
		return seen, won, err
	}
}

// replace puts a record in the place of one that is known by all its bytes: those begin with its version, which no two
// records share, as revisions may once a cluster has been restored from a snapshot.
func (s *Store) replace(ctx context.Context, p *page, key string, version uint64, value string) (fleet.Sight, bool, error) {
	before, lease, known := p.value(version)
	if !known {
		got, err := s.client.Get(ctx, s.record(key))
		if err != nil {
			return fleet.Sight{}, false, err
		}
		seen, err := p.sight(got.Kvs, time.Now())
		if err != nil || seen.Version != version {
			return seen, false, err
		}
		before, lease, _ = p.value(version)
	}
	same := clientv3.Compare(clientv3.Value(s.record(key)), "=", before)
	return s.swap(ctx, p, key, same, value, lease, clientv3.WithIgnoreLease())
}

func (s *Store) swap(ctx context.Context, p *page, key string, when clientv3.Cmp, value string, lease clientv3.LeaseID, on clientv3.OpOption) (fleet.Sight, bool, error) {
	answer, err := s.client.Txn(ctx).If(when).Then(clientv3.OpPut(s.record(key), value, on)).Else(clientv3.OpGet(s.record(key))).Commit()
	if err != nil {
		return fleet.Sight{}, false, err
	}
	if answer.Succeeded {
		return p.wrote(value, lease, time.Now()), true, nil
	}
	seen, err := p.sight(answer.Responses[0].GetResponseRange().Kvs, time.Now())
	return seen, false, err
}

// stamp is how bytes are written: after eight that are drawn anew for each write, a record's version.
func stamp(bytes []byte) string {
	return string(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(bytes)), rand.Uint64()|1)) + string(bytes)
}

// failed says which call it was, and what to do if that is known.
func (s *Store) failed(ctx context.Context, what, key string, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("fleet breakers: etcd, %s of %.100q: no answer: %w", what, key, ctx.Err())
	case errors.Is(err, rpctypes.ErrNoSpace):
		return fmt.Errorf("fleet breakers: etcd, %s of %.100q: %w: compact and defragment it, disarm its alarm, and have it compact by itself (--auto-compaction-retention)", what, key, err)
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		return fmt.Errorf("fleet breakers: etcd, %s of %.100q: %w: grant this user reading and writing of the prefix %q", what, key, err, s.prefix)
	}
	return fmt.Errorf("fleet breakers: etcd, %s of %.100q: %w", what, key, err)
}

func fits(ctx context.Context, key, caller string, bytes []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	switch {
	case key == "":
		return errors.New("fleet breakers: a key is empty: name the target")
	case len(key) > fleet.MostBytes, len(caller) > fleet.MostBytes, len(bytes) > fleet.MostBytes:
		return fmt.Errorf("fleet breakers: a key of %d bytes, a caller's name of %d, and %d more: none may be longer than %d", len(key), len(caller), len(bytes), fleet.MostBytes)
	}
	return nil
}

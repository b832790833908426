package etcdstore

import (
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/eiderhq/eider/breaker/fleet"
)

// kept are the callers whose counts etcd has, whatever this Store thinks of their ages.
func kept(t *testing.T, s *Store, key string) []string {
	t.Helper()
	got, err := s.client.Get(t.Context(), s.counts(key), clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	var callers []string
	for _, kv := range got.Kvs {
		callers = append(callers, string(kv.Key)[len(s.counts(key)):])
	}
	return callers
}

// leaseOf is the one that a key in etcd hangs on, and what is left of it in seconds.
func leaseOf(t *testing.T, s *Store, key string) (id clientv3.LeaseID, left, whole int64) {
	t.Helper()
	got, err := s.client.Get(t.Context(), key)
	if err != nil || len(got.Kvs) != 1 {
		t.Fatal(got, err)
	}
	id = clientv3.LeaseID(got.Kvs[0].Lease)
	l, err := s.client.TimeToLive(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return id, l.TTL, l.GrantedTTL
}

func TestLeasesLastLongEnough(t *testing.T) {
	s := New(common(t))
	swap(t, s, "orders", 0, "open")
	tell(t, s, "orders", "a", "1")
	if _, _, whole := leaseOf(t, s, s.record("orders")); time.Duration(whole)*time.Second != fleet.Keep*5/4 {
		t.Errorf("a record is kept for %d s", whole)
	}
	if _, _, whole := leaseOf(t, s, s.counts("orders")+"a"); time.Duration(whole)*time.Second != fleet.KeepCounts*3/2 {
		t.Errorf("a count is kept for %d s", whole)
	}
}

// Who tells no more is forgotten, although others of the same process go on; and so is a record that nobody asks for.
func TestWhatNobodyTellsOfEnds(t *testing.T) {
	t.Parallel()
	s := New(common(t))
	s.leases.keepCounts, s.leases.keep = 2*time.Second, 2*time.Second
	put := swap(t, s, "orders", 0, "open")
	watch := follow(t, s, "orders")
	watch.until(t, "the record", put.Version)
	tell(t, s, "tills", "quiet", "1")
	eventually(t, "of two callers only one goes on, and is kept", func() bool {
		tell(t, s, "tills", "goes on", "1")
		return slices.Equal(kept(t, s, "tills"), []string{"goes%20on"})
	})
	watch.until(t, "the end of a record that nobody asks for", 0)
	swap(t, s, "orders", 0, "open")
}

// A count hangs on the lease of the time when it was told, which is never kept alive.
func TestCountsLeaseIsGrantedAnew(t *testing.T) {
	s := New(common(t))
	own := s.counts("orders") + "a"
	tell(t, s, "orders", "a", "1")
	tell(t, s, "tills", "b", "1")
	first, _, _ := leaseOf(t, s, own)
	if same, _, _ := leaseOf(t, s, s.counts("tills")+"b"); same != first {
		t.Error("two counts told at once hang on two leases")
	}
	s.leases.counts.at = s.leases.counts.at.Add(-fleet.KeepCounts / 2)
	tell(t, s, "orders", "a", "2")
	second, _, _ := leaseOf(t, s, own)
	if second == first {
		t.Error("half its time is over, and the lease is the same")
	}
	if _, err := s.client.Revoke(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	if seen := tell(t, s, "orders", "a", "3"); len(seen.Counts) != 1 || string(seen.Counts[0].Count) != "3" {
		t.Errorf("told on a lease that etcd has lost: %+v", seen)
	}
}

func TestRecordsLeaseStaysWithItAndIsKeptAlive(t *testing.T) {
	t.Parallel()
	s := New(common(t))
	put := swap(t, s, "orders", 0, "open")
	first, _, _ := leaseOf(t, s, s.record("orders"))
	other := New(s.client, Config{Prefix: s.prefix})
	put = swap(t, other, "orders", put.Version, "half-open")
	same, _, whole := leaseOf(t, s, s.record("orders"))
	if same != first {
		t.Error("a Swap has put the record on another lease")
	}
	// The other has kept it alive as it first saw it, and now both have.
	tell(t, s, "orders", "a", "1")
	tell(t, other, "orders", "b", "1")
	aged := func() {
		eventually(t, "two seconds of the lease have passed", func() bool {
			_, left, _ := leaseOf(t, s, s.record("orders"))
			return left <= whole-2
		})
	}
	aged()
	tell(t, s, "orders", "a", "2")
	if _, left, _ := leaseOf(t, s, s.record("orders")); left > whole-2 {
		t.Error("it is kept alive again after two seconds")
	}
	p, _ := s.book.at("orders", time.Now())
	p.kept.at = p.kept.at.Add(-fleet.Keep / 4)
	tell(t, s, "orders", "a", "3")
	if _, left, _ := leaseOf(t, s, s.record("orders")); left < whole-1 {
		t.Errorf("a quarter of Keep later it isn't kept alive: %d s are left of %d", left, whole)
	}
	aged()
	p.kept.at = p.kept.at.Add(-fleet.Keep / 4)
	swap(t, s, "orders", put.Version, "closed")
	if _, left, _ := leaseOf(t, s, s.record("orders")); left < whole-1 {
		t.Errorf("a Swap doesn't keep it alive: %d s are left of %d", left, whole)
	}
}

// Of fifty that create one record at once, those who lose need their leases for the next.
func TestALeaseThatWasntNeededIsUsedLater(t *testing.T) {
	s := New(common(t))
	swap(t, New(s.client, Config{Prefix: s.prefix}), "orders", 0, "open")
	if _, won, err := s.Swap(t.Context(), "orders", 0, []byte("open")); won || err != nil {
		t.Fatal(won, err)
	}
	spare := s.leases.spare.id
	swap(t, s, "tills", 0, "open")
	if id, _, _ := leaseOf(t, s, s.record("tills")); id != spare || s.leases.spare.id != 0 {
		t.Errorf("the record hangs on %x, spare was %x", id, spare)
	}
	if _, won, err := s.Swap(t.Context(), "orders", 0, []byte("open")); won || err != nil {
		t.Fatal(won, err)
	}
	s.leases.spare.at = s.leases.spare.at.Add(-fleet.Keep / 4)
	old := s.leases.spare.id
	swap(t, s, "old", 0, "open")
	if id, _, _ := leaseOf(t, s, s.record("old")); id == old {
		t.Error("the record hangs on a lease that has lost a quarter of its time")
	}
	s.leases.unused(lease{old, time.Now()})
	if _, err := s.client.Revoke(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	swap(t, s, "lost", 0, "open")
}

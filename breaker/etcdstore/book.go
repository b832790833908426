package etcdstore

import (
	"encoding/binary"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/eiderhq/eider/breaker/fleet"
)

// book is what this Store has seen, and when: etcd knows no clock, so that nothing is older than since it was seen here.
type book struct {
	most int

	mu    sync.Mutex
	pages map[string]*page
}

// page is that of one key.
type page struct {
	mu      sync.Mutex
	touched time.Time
	seen    []version       // at most mostSeen, the last one is the newest
	counts  map[string]mark // by caller
	gone    map[string]bool // whose counts were taken away from here, and not told again
	kept    lease           // the record's, as it was last kept alive from here
}

type version struct {
	number uint64
	value  string
	lease  clientv3.LeaseID
	at     time.Time
}

// mark is one count, by how it was stamped.
type mark struct {
	stamp uint64
	at    time.Time
}

// mostSeen is how many versions of a key are remembered: an answer may be late, and show one that was overtaken.
const mostSeen = 3

// at is the page of a key.
func (b *book) at(key string, now time.Time) (*page, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.pages[key]
	if p == nil {
		if len(b.pages) >= b.most && !b.makeRoom(now) {
			return nil, fmt.Errorf("fleet breakers: this store remembers %d keys, and none has been quiet for %v: use fewer keys, one for each target, or raise Most", b.most, fleet.Keep)
		}
		p = &page{counts: map[string]mark{}, gone: map[string]bool{}}
		b.pages[key] = p
	}
	p.touch(now)
	return p, nil
}

// makeRoom forgets all that nobody has asked for since Keep.
func (b *book) makeRoom(now time.Time) bool {
	for key, p := range b.pages {
		if p.quiet(now) >= fleet.Keep {
			delete(b.pages, key)
		}
	}
	return len(b.pages) < b.most
}

func (p *page) touch(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.touched = now
}

func (p *page) quiet(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return now.Sub(p.touched)
}

// sight is what etcd has answered of a record.
func (p *page) sight(kvs []*mvccpb.KeyValue, now time.Time) (fleet.Sight, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.touched = now
	if len(kvs) == 0 {
		return fleet.Sight{}, nil
	}
	number, err := stamped(kvs[0])
	if err != nil {
		return fleet.Sight{}, err
	}
	i := slices.IndexFunc(p.seen, func(v version) bool { return v.number == number })
	if i < 0 {
		return p.add(version{number, string(kvs[0].Value), clientv3.LeaseID(kvs[0].Lease), now}, now), nil
	}
	return p.seen[i].sight(now), nil
}

// wrote is the sight of what was just put there: it is no older than etcd's answer.
func (p *page) wrote(value string, lease clientv3.LeaseID, now time.Time) fleet.Sight {
	p.mu.Lock()
	defer p.mu.Unlock()
	number := binary.BigEndian.Uint64([]byte(value))
	for _, v := range p.seen {
		if v.number == number { // a watch was faster than the answer
			return v.sight(now)
		}
	}
	return p.add(version{number, value, lease, now}, now)
}

func (p *page) add(v version, now time.Time) fleet.Sight {
	if len(p.seen) == mostSeen {
		p.seen = slices.Delete(p.seen, 0, 1)
	}
	p.seen = append(p.seen, v)
	return v.sight(now)
}

func (v version) sight(now time.Time) fleet.Sight {
	return fleet.Sight{Version: v.number, Record: []byte(v.value[8:]), Age: max(0, now.Sub(v.at))}
}

// value is all that etcd has of a version, if it was seen here.
func (p *page) value(number uint64) (value string, lease clientv3.LeaseID, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, v := range p.seen {
		if v.number == number {
			return v.value, v.lease, true
		}
	}
	return "", 0, false
}

// told is what etcd has answered of the counts below a prefix.
func (p *page) told(kvs []*mvccpb.KeyValue, prefix string, now time.Time) ([]fleet.Count, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	counts, marks := make([]fleet.Count, 0, len(kvs)), make(map[string]mark, len(kvs))
	for _, kv := range kvs {
		number, err := stamped(kv)
		if err != nil {
			return nil, err
		}
		caller, err := url.PathUnescape(strings.TrimPrefix(string(kv.Key), prefix))
		if err != nil {
			return nil, notOurs(kv)
		}
		m := p.counts[caller]
		if m.stamp != number {
			m = mark{number, now}
		}
		marks[caller] = m
		if age := max(0, now.Sub(m.at)); age < fleet.KeepCounts {
			counts = append(counts, fleet.Count{Caller: caller, Age: age, Count: kv.Value[8:]})
		}
	}
	p.counts = marks
	return counts, nil
}

func (p *page) hasTold(caller, value string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.counts) > 2*fleet.MostCallers {
		clear(p.counts)
	}
	p.counts[caller] = mark{binary.BigEndian.Uint64([]byte(value)), now}
}

// tells is said before a count is sent: whether it arrives may stay unknown.
func (p *page) tells(caller string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.gone, caller)
}

func (p *page) tookAway(caller string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.gone) > 2*fleet.MostCallers {
		clear(p.gone)
	}
	p.gone[caller] = true
}

func (p *page) isGone(caller string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gone[caller]
}

// keepAlive tells whose lease is to be kept alive now, which the one who asks then does.
func (p *page) keepAlive(now time.Time, every time.Duration) (clientv3.LeaseID, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.seen) == 0 {
		return 0, false
	}
	id := p.seen[len(p.seen)-1].lease
	if id == 0 || id == p.kept.id && now.Sub(p.kept.at) < every {
		return 0, false
	}
	p.kept = lease{id, now}
	return id, true
}

func (p *page) isKept(l lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept = l
}

func (p *page) notKept(id clientv3.LeaseID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kept.id == id {
		p.kept = lease{}
	}
}

func stamped(kv *mvccpb.KeyValue) (uint64, error) {
	if len(kv.Value) < 8 {
		return 0, notOurs(kv)
	}
	number := binary.BigEndian.Uint64(kv.Value)
	if number == 0 {
		return 0, notOurs(kv)
	}
	return number, nil
}

func notOurs(kv *mvccpb.KeyValue) error {
	return fmt.Errorf("%.200q holds %d bytes that no fleet breaker has written: delete it, or choose another Prefix", kv.Key, len(kv.Value))
}

package redisstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/eiderhq/eider/breaker/fleet"
)

// Config is what a Store may be told; its zero value works.
type Config struct {
	// Prefix is what the names of its keys begin with; "" means "eider:fleet:". Callers that share breakers have the same, and
	// nothing else in this Redis does. Swaps are told on the channel Prefix + "changed" to every Store with that Prefix: fleets
	// that have nothing to do with each other are spared that by one of their own.
	Prefix string

	// Poll is after what time without a word of a key a Watch asks again, in case a push was lost or Redis was flushed;
	// 0 or less means 10s. Each Tell of the same Store is a word, so a breaker, which tells at least each 5s, costs nothing more. Less
	// finds a flush sooner where nobody tells, for one command of each Watch in that time. So often the subscription is tried.
	Poll time.Duration

	// Timeout is how long Redis may take to answer a Watch; 0 or less means 1s. A Watch that had no answer ends with an error.
	Timeout time.Duration
}

// Store keeps fleet breakers in Redis.
type Store struct {
	client           redis.UniversalClient
	prefix           string
	poll, timeout    time.Duration
	tell, swap, look *redis.Script
	asking           chan struct{} // one for each call that Redis hasn't answered

	mu       sync.Mutex
	watchers map[string][]*watcher
	watching int
	stop     context.CancelFunc // ends the subscription; nil: there is none
}

// mostAsking is how many calls may be without an answer. Of a client that doesn't look at contexts (go-redis'
// ContextTimeoutEnabled is off unless asked for) a call goes on when who made it has gone, until the client's own timeouts.
const mostAsking = 256

var (
	//go:embed tell.lua
	tellScript string
	//go:embed swap.lua
	swapScript string
	//go:embed look.lua
	lookScript string
)

// New makes a Store over a client, which stays the caller's: nothing is sent before the first call, and closing it is the
// caller's affair. The client may be of one server, of Sentinel or of a Cluster.
func New(client redis.UniversalClient, c Config) *Store {
	return &Store{
		client:   client,
		prefix:   orElse(c.Prefix != "", c.Prefix, "eider:fleet:"),
		poll:     orElse(c.Poll > 0, c.Poll, 10*time.Second),
		timeout:  orElse(c.Timeout > 0, c.Timeout, time.Second),
		tell:     redis.NewScript(tellScript),
		swap:     redis.NewScript(swapScript),
		look:     redis.NewScript(lookScript),
		asking:   make(chan struct{}, mostAsking),
		watchers: map[string][]*watcher{},
	}
}

// Tell is [fleet.Store.Tell]: one command.
func (s *Store) Tell(ctx context.Context, key, caller string, count []byte, all bool) (fleet.Sight, error) {
	if err := s.fits(ctx, key, caller, count); err != nil {
		return fleet.Sight{}, err
	}
	wanted := ""
	if all {
		wanted = "1"
	}
	answer, err := s.run(ctx, s.tell, key, caller, count, wanted, fleet.Keep.Milliseconds(), fleet.KeepCounts.Microseconds(), fleet.MostCallers)
	var seen fleet.Sight
	if err == nil {
		seen, err = sight(answer)
	}
	if err != nil {
		return fleet.Sight{}, explained(ctx, "Tell", key, err)
	}
	s.saw(key, seen.Version)
	return seen, nil
}

// Swap is [fleet.Store.Swap]: one command. After an error the record may be there or not, or come yet.
func (s *Store) Swap(ctx context.Context, key string, version uint64, record []byte) (fleet.Sight, bool, error) {
	if err := s.fits(ctx, key, "", record); err != nil {
		return fleet.Sight{}, false, err
	}
	old := ""
	if version != 0 {
		old = strconv.FormatUint(version, 10)
	}
	// By chance, not counted: a flush or a failover takes a counter back, and who slept through it must not fit.
	fresh := strconv.FormatUint(rand.Uint64()|1, 10)
	answer, err := s.run(ctx, s.swap, key, old, fresh, record, fleet.Keep.Milliseconds(), s.channel())
	var seen fleet.Sight
	if err == nil {
		seen, err = sight(answer[min(1, len(answer)):]) // of nothing, as a proxy may answer, there is no sight
	}
	if err != nil {
		return fleet.Sight{}, false, explained(ctx, "Swap", key, err)
	}
	s.saw(key, seen.Version)
	return seen, answer[0] == int64(1), nil
}

func (s *Store) lookAt(ctx context.Context, key string) (fleet.Sight, error) {
	inTime, done := context.WithTimeout(ctx, s.timeout)
	defer done()
	answer, err := s.run(inTime, s.look, key)
	var seen fleet.Sight
	if err == nil {
		seen, err = sight(answer)
	}
	switch {
	case ctx.Err() != nil:
		return fleet.Sight{}, ctx.Err()
	case err != nil && inTime.Err() != nil:
		return fleet.Sight{}, explained(ctx, "Watch", key, fmt.Errorf("no answer in %v", s.timeout))
	case err != nil:
		return fleet.Sight{}, explained(ctx, "Watch", key, err)
	}
	return seen, nil
}

// run returns when its context ends, whatever the client does.
func (s *Store) run(ctx context.Context, script *redis.Script, key string, args ...any) ([]any, error) {
	select {
	case s.asking <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	type answer struct {
		values []any
		err    error
	}
	answers := make(chan answer, 1)
	go func() {
		defer func() { <-s.asking }()
		values, err := script.Run(ctx, s.client, []string{s.prefix + key}, args...).Slice()
		answers <- answer{values, err}
	}()
	select {
	case a := <-answers:
		return a.values, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *Store) channel() string { return s.prefix + "changed" }

func (s *Store) fits(ctx context.Context, key, caller string, bytes []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	_, sharded := s.client.(*redis.Ring)
	switch {
	case sharded: // and it panics, in a goroutine of its own, when its subscription begins without a channel
		return errors.New("fleet breakers: a redis.Ring publishes on one server and subscribes at another: use a client of one server, of Sentinel or of a Cluster")
	case key == "":
		return errors.New("fleet breakers: a key is empty: name the target")
	case len(key) > fleet.MostBytes, len(caller) > fleet.MostBytes, len(bytes) > fleet.MostBytes:
		return fmt.Errorf("fleet breakers: a key of %d bytes, a caller's name of %d, and %d more: none may be longer than %d", len(key), len(caller), len(bytes), fleet.MostBytes)
	}
	return nil
}

// explained says which call it was and, where that is known, what helps. No record, count or password is in it.
func explained(ctx context.Context, call, key string, err error) error {
	if ctx.Err() != nil {
		err = ctx.Err() // the client may call it by another name
	}
	const allow = "; let this user do what the documentation of package redisstore lists"
	help := ""
	for _, h := range []struct{ says, help string }{
		{"OOM command not allowed", "; Redis is full: raise its maxmemory, or give fleet breakers a Redis of their own"},
		{"NOPERM", allow}, {"The user executing the script", allow}, {"ACL failure", allow}, // before Redis 7.2, and since
		{"WRONGTYPE", "; another program writes under these names: choose another Prefix"},
		{"READONLY", "; this is a replica: let the client follow the master, by Sentinel or Cluster"},
		{"unknown command", "; fleet breakers need Redis 5 or newer, with Lua scripts and pub/sub"},
	} {
		if strings.Contains(err.Error(), h.says) {
			help = h.help
		}
	}
	return fmt.Errorf("fleet breakers: Redis, %s of %q: %w%s", call, key, err, help)
}

// sight reads what a script answers.
func sight(answer []any) (fleet.Sight, error) {
	var seen fleet.Sight
	if len(answer)%3 != 0 || len(answer) == 0 {
		return seen, fmt.Errorf("an answer of %d parts: another program writes under these names: choose another Prefix", len(answer))
	}
	age, _ := answer[0].(int64)
	version, _ := answer[1].(string)
	record, _ := answer[2].(string)
	if version != "" {
		v, err := strconv.ParseUint(version, 10, 64)
		if err != nil || v == 0 {
			return seen, errors.New("a version that is no number: another program writes under these names: choose another Prefix")
		}
		seen = fleet.Sight{Version: v, Record: []byte(record), Age: time.Duration(age) * time.Microsecond}
	}
	for c := range len(answer)/3 - 1 {
		caller, _ := answer[3*c+3].(string)
		age, _ := answer[3*c+4].(int64)
		count, _ := answer[3*c+5].(string)
		seen.Counts = append(seen.Counts, fleet.Count{Caller: caller, Age: time.Duration(age) * time.Microsecond, Count: []byte(count)})
	}
	return seen, nil
}

func orElse[T any](set bool, v, otherwise T) T {
	if set {
		return v
	}
	return otherwise
}

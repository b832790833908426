package native

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/breaker/fleet"
	"github.com/eiderhq/eider/server/internal/access"
	"github.com/eiderhq/eider/server/internal/panel"
)

type followClient = grpc.BidiStreamingClient[pb.FollowRequest, pb.FollowReply]

// following returns a Follow stream that is past its Hello.
func (r *rig) following(cc *grpc.ClientConn) followClient {
	r.t.Helper()
	s, err := pb.NewFleetClient(cc).Follow(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	tell(r.t, s.Send, followHello())
	if w := hear(r.t, s.Recv).GetWelcome(); w.GetRun() != 0xabc {
		r.t.Fatalf("welcome: %v", w)
	}
	return s
}

func followHello() *pb.FollowRequest {
	return &pb.FollowRequest{Kind: &pb.FollowRequest_Hello{Hello: &pb.Hello{Caller: "checkout@1"}}}
}

func follow(number uint64, key string) *pb.FollowRequest {
	return &pb.FollowRequest{Kind: &pb.FollowRequest_Follow{Follow: &pb.Key{Number: number, Key: key}}}
}

// refusedAs is what a question was refused as, with the error beside the status.
func refusedAs(err error) (codes.Code, *pb.Error) {
	for _, d := range status.Convert(err).Details() {
		if e, ok := d.(*pb.Error); ok {
			return status.Code(err), e
		}
	}
	return status.Code(err), nil
}

func withPanel(cfg Config) Config {
	cfg.Panel = panel.New(fleet.NewMemory(0), nil)
	return cfg
}

// Who only reads sees what there is, and changes nothing for others; who isn't let in sees nothing.
func TestAttackOneThatOnlyReadsOpensTheBreakerOfAll(t *testing.T) {
	cfg, told := guarded(t)
	inBubble(t, withPanel(cfg), func(t *testing.T, r *rig) {
		c := pb.NewFleetClient(r.dial("10.0.0.2"))
		for token, want := range map[string]codes.Code{"orders": codes.OK, "reader": codes.PermissionDenied, "wrong": codes.PermissionDenied, "": codes.PermissionDenied} {
			_, err := c.Tell(as(t, token), &pb.TellRequest{Key: "orders", Caller: "a", Count: []byte("1")})
			code, e := refusedAs(err)
			if code != want || code != codes.OK && e.GetKind() != pb.Kind_KIND_DENIED {
				t.Errorf("token %q tells: %v", token, err)
			}
			_, err = c.Swap(as(t, token), &pb.SwapRequest{Key: token + "'s", Record: []byte("open")})
			if code, _ := refusedAs(err); code != want {
				t.Errorf("token %q swaps: %v", token, err)
			}
			if want == codes.OK != (r.srv.cfg.Panel.Look(token+"'s").Version != 0) {
				t.Errorf("token %q has left a record, or none", token)
			}
			s, err := c.Follow(as(t, token))
			if err != nil {
				t.Fatal(err)
			}
			tell(t, s.Send, followHello())
			if m, err := within(t, s.Recv); (err == nil && m.GetWelcome() != nil) != (token == "orders" || token == "reader") {
				t.Errorf("token %q follows: %v, %v", token, m, err)
			}
		}
	})
	for _, who := range []string{"token reader", ""} {
		if !slices.ContainsFunc(*told, func(e eider.Event) bool {
			return e.Kind == eider.EventDenied && e.Caller == who && strings.Contains(e.Detail, "10.0.0.2")
		}) {
			t.Errorf("nobody heard that %q was refused: %+v", who, *told)
		}
	}
}

// Callers are told apart by machine and identity, never by the names that they give themselves.
func TestAttackOneProcessIsAQuorum(t *testing.T) {
	inBubble(t, withPanel(Config{}), func(t *testing.T, r *rig) {
		for _, host := range []string{"10.0.0.2", "10.0.0.3"} {
			c := pb.NewFleetClient(r.dial(host))
			for i := range 3 {
				if _, err := c.Tell(t.Context(), &pb.TellRequest{Key: "orders", Caller: fmt.Sprint(host, i), Count: []byte("1")}); err != nil {
					t.Fatal(err)
				}
			}
		}
		m, err := pb.NewFleetClient(r.dial("10.0.0.4")).Tell(t.Context(), &pb.TellRequest{Key: "orders", Caller: "looks", All: true})
		if err != nil || len(m.GetTold()) != 6 {
			t.Fatal(m, err)
		}
		for _, c := range m.GetTold() {
			if want := c.GetCaller()[:len("10.0.0.2")]; c.GetFrom() != want {
				t.Errorf("%s comes from %q", c.GetCaller(), c.GetFrom())
			}
		}
	})
	token := &access.Identity{Name: "checkout", Kind: access.Token}
	for _, row := range []struct {
		who  *access.Identity
		at   string
		want string
	}{
		{nil, "127.0.0.1", ""}, {token, "127.0.0.1", ""}, {nil, "::1", ""},
		{nil, "10.0.0.2", "10.0.0.2"}, {token, "10.0.0.2", "token checkout at 10.0.0.2"},
		{nil, "2001:db8::1:2:3:4", "2001:db8::/64"}, {token, "2001:db8::5", "token checkout at 2001:db8::/64"}, {nil, "fe80::1%eth0", "fe80::/64"},
	} {
		if got := originOf(row.who, netip.MustParseAddr(row.at)); got != row.want {
			t.Errorf("%v at %s is %q, want %q", row.who, row.at, got, row.want)
		}
	}
	if got := originOf(token, netip.Addr{}); got != "" {
		t.Errorf("somewhere that isn't IP is %q", got)
	}
}

func TestWhatIsFollowedIsBounded(t *testing.T) {
	mem := fleet.NewMemory(0)
	inBubble(t, Config{Panel: panel.New(mem, nil), Limits: Limits{Subscriptions: 2}}, func(t *testing.T, r *rig) {
		s := r.following(r.dial("10.0.0.2"))
		want := func(number uint64, key string, kind pb.Kind, says string) {
			t.Helper()
			tell(t, s.Send, follow(number, key))
			seen := hear(t, s.Recv).GetSeen()
			e := seen.GetError()
			if seen.GetNumber() != number || (says == "") != (e == nil) || e.GetKind() != kind || !strings.Contains(e.GetMessage(), says) {
				t.Errorf("follow %d: %v", number, seen)
			}
		}
		want(1, "orders", 0, "")
		want(2, "", pb.Kind_KIND_INVALID, "empty")
		want(2, strings.Repeat("x", fleet.MostBytes+1), pb.Kind_KIND_INVALID, "4096")
		want(1, "pay", pb.Kind_KIND_INVALID, "number 1")
		want(2, "pay", 0, "")
		want(3, "tills", pb.Kind_KIND_LIMITED, "2 keys")
		tell(t, s.Send, &pb.FollowRequest{Kind: &pb.FollowRequest_Unfollow{Unfollow: 2}})
		want(3, "tills", 0, "")
		if _, _, err := r.srv.cfg.Panel.Swap(t.Context(), "pay", 0, []byte("of one that isn't followed any more"), true); err != nil {
			t.Fatal(err)
		}
		if _, _, err := r.srv.cfg.Panel.Swap(t.Context(), "tills", 0, []byte("open"), true); err != nil {
			t.Fatal(err)
		}
		if seen := hear(t, s.Recv).GetSeen(); seen.GetNumber() != 3 || string(seen.GetSight().GetRecord()) != "open" {
			t.Errorf("seen: %v", seen)
		}
		tell(t, s.Send, &pb.FollowRequest{Kind: &pb.FollowRequest_Ping{Ping: &pb.Ping{Number: 9}}})
		if m := hear(t, s.Recv).GetPong(); m.GetNumber() != 9 {
			t.Errorf("answer to a ping: %v", m)
		}
		if n := mem.Bells("tills"); n != 1 {
			t.Errorf("%d bells for a key that one stream follows", n)
		}
		tell(t, s.Send, followHello())
		if code, _ := hearEnd(t, s.Recv); code != codes.InvalidArgument {
			t.Errorf("after a second Hello: %v", code)
		}
		synctest.Wait()
		if n := mem.Bells("tills") + mem.Bells("orders"); n != 0 {
			t.Errorf("%d bells are left of a stream that has ended", n)
		}
	})
}

// What is too much from one machine is refused to it, and to no other.
func TestAttackOneMachineAsksForAllTurns(t *testing.T) {
	cfg := withPanel(Config{Limits: Limits{Fleet: Rate{PerSecond: 100, Burst: 30}, OriginFleet: Rate{PerSecond: 1, Burst: 20}}})
	inBubble(t, cfg, func(t *testing.T, r *rig) {
		ask := func(host string, times int) (limited int) {
			t.Helper()
			c := pb.NewFleetClient(r.dial(host))
			for range times {
				_, err := c.Tell(t.Context(), &pb.TellRequest{Key: "orders", Caller: "a", Count: []byte("1")})
				if code, e := refusedAs(err); code == codes.ResourceExhausted && e.GetKind() == pb.Kind_KIND_LIMITED && e.GetRetryAfterMs() > 0 {
					limited++
				} else if err != nil {
					t.Fatal(err)
				}
			}
			return limited
		}
		if n := ask("10.0.0.2", 1000); n != 980 {
			t.Errorf("of a thousand %d were refused", n)
		}
		if n := ask("10.0.0.3", 10); n != 0 {
			t.Errorf("another machine was refused %d times", n)
		}
		if n := ask("10.0.0.4", 10); n != 10 {
			t.Errorf("above what the node takes %d of ten were refused", n)
		}
		if got := r.srv.Stats().Limited; got != 990 {
			t.Errorf("%d are counted", got)
		}
	})
}

// Origins that ask no more are forgotten.
func TestOriginsAreBounded(t *testing.T) {
	now := time.Now()
	o := newOrigins(Rate{PerSecond: 1, Burst: 1})
	for i := range 3 * mostOrigins {
		o.admit(fmt.Sprint(i), now.Add(time.Duration(i)*time.Millisecond))
	}
	if len(o.has) > mostOrigins {
		t.Errorf("%d are remembered", len(o.has))
	}
}

// A record is bytes of callers: whatever they are, the node serves on.
func TestGarbageInRecords(t *testing.T) {
	inBubble(t, withPanel(Config{}), func(t *testing.T, r *rig) {
		cc := r.dial("10.0.0.2")
		c, s := pb.NewFleetClient(cc), r.following(cc)
		tell(t, s.Send, follow(1, "orders"))
		hear(t, s.Recv)
		version, rnd := uint64(0), rand.New(rand.NewPCG(1, 2))
		for range 200 {
			record := make([]byte, rnd.IntN(fleet.MostBytes))
			for i := range record {
				record[i] = byte(rnd.Uint32())
			}
			m, err := c.Swap(t.Context(), &pb.SwapRequest{Key: "orders", Version: version, Record: record})
			if err != nil || !m.GetSwapped() {
				t.Fatal(m, err)
			}
			version = m.GetSight().GetVersion()
			if _, err := c.Tell(t.Context(), &pb.TellRequest{Key: "orders", Caller: "a", Count: record}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if got := hear(t, s.Recv).GetSeen().GetSight(); got.GetVersion() != version || !bytes.Equal(got.GetRecord(), record) {
				t.Fatalf("seen: %v", got)
			}
		}
		for what, err := range map[string]error{
			"no key":        second(c.Swap(t.Context(), &pb.SwapRequest{})),
			"a long record": second(c.Swap(t.Context(), &pb.SwapRequest{Key: "orders", Version: version, Record: make([]byte, fleet.MostBytes+1)})),
			"a long count":  second(c.Tell(t.Context(), &pb.TellRequest{Key: "orders", Count: make([]byte, fleet.MostBytes+1)})),
		} {
			if code, e := refusedAs(err); code != codes.InvalidArgument || e.GetKind() != pb.Kind_KIND_INVALID {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, err := c.Tell(t.Context(), &pb.TellRequest{Key: strings.Repeat("x", 1<<20)}); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("a message beyond the limit: %v", err)
		}
	})
}

func second[T any](_ T, err error) error { return err }

// A node of which the panel is full says so, and keeps what it has.
func TestAFullPanelSaysSo(t *testing.T) {
	cfg := Config{Panel: panel.New(fleet.NewMemory(1), nil)}
	inBubble(t, cfg, func(t *testing.T, r *rig) {
		c := pb.NewFleetClient(r.dial("10.0.0.2"))
		if _, err := c.Swap(t.Context(), &pb.SwapRequest{Key: "orders", Record: []byte("open")}); err != nil {
			t.Fatal(err)
		}
		_, err := c.Tell(t.Context(), &pb.TellRequest{Key: "pay", Caller: "a", Count: []byte("1")})
		if code, e := refusedAs(err); code != codes.ResourceExhausted || !strings.Contains(e.GetMessage(), "keeps 1 keys") {
			t.Errorf("one key too many: %v", err)
		}
		if got := cfg.Panel.Stats(); got.Full != 1 || got.Swaps != 1 {
			t.Errorf("%+v", got)
		}
	})
}

// Forcing takes an operator, also by whoever knows how a record is written; what can't be read forces nobody.
func TestAttackForcesABreakerByItsRecord(t *testing.T) {
	var book []byte
	for name, roles := range map[string]access.Roles{"caller": {Register: []string{"checkout"}}, "operator": {Operate: true}} {
		book = access.AppendLine(book, access.Identity{Name: name, Kind: access.Token, Roles: roles}, name, time.Now())
	}
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, book, 0o600); err != nil {
		t.Fatal(err)
	}
	k := access.NewKeeper(path)
	if _, err := k.Reload(); err != nil {
		t.Fatal(err)
	}
	inBubble(t, withPanel(Config{Guard: &access.Guard{Keeper: k}}), func(t *testing.T, r *rig) {
		c := pb.NewFleetClient(r.dial("10.0.0.2"))
		version := uint64(0)
		for i, row := range []struct {
			who   string
			state breaker.State
			want  codes.Code
		}{
			{"caller", breaker.ForcedOpen, codes.PermissionDenied}, {"caller", breaker.ForcedClosed, codes.PermissionDenied},
			{"caller", breaker.Open, codes.OK}, {"caller", breaker.ForcedOpen, codes.PermissionDenied}, {"operator", breaker.ForcedOpen, codes.OK},
			{"caller", breaker.Closed, codes.PermissionDenied}, {"caller", breaker.ForcedClosed, codes.PermissionDenied}, {"caller", breaker.MetricsOnly, codes.PermissionDenied},
			{"operator", breaker.Closed, codes.OK}, {"caller", breaker.MetricsOnly, codes.OK}, {"caller", breaker.Closed, codes.OK},
		} {
			m, err := c.Swap(as(t, row.who), &pb.SwapRequest{Key: "orders", Version: version, Record: fleet.Record{Epoch: 1, State: row.state}.Bytes()})
			if code, e := refusedAs(err); code != row.want || code != codes.OK && e.GetKind() != pb.Kind_KIND_DENIED {
				t.Errorf("%d: %s swaps to %s: %v", i, row.who, row.state, err)
			}
			if err == nil {
				version = m.GetSight().GetVersion()
			}
		}
	})
}

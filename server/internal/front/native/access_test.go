package native

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/server/internal/access"
)

// guarded is a configuration that lets in the token "orders" (register orders) and "both" (and read), with what an
// audit has told.
func guarded(t *testing.T) (Config, *[]eider.Event) {
	t.Helper()
	var book []byte
	for name, roles := range map[string]access.Roles{"orders": {Register: []string{"orders"}}, "reader": {Read: true}, "nothing": {}} {
		if roles.String() == "" {
			continue
		}
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
	told := &[]eider.Event{}
	return Config{Guard: &access.Guard{Keeper: k}, Audit: &access.Audit{Tell: func(e eider.Event) { *told = append(*told, e) }}}, told
}

func as(t *testing.T, token string) context.Context {
	return metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
}

func (r *rig) attachAs(token string) attachClient {
	r.t.Helper()
	s, err := pb.NewRegistryClient(r.dial("10.0.0.2")).Attach(as(r.t, token))
	if err != nil {
		r.t.Fatal(err)
	}
	tell(r.t, s.Send, hello())
	return s
}

// followAs opens a caller's stream and returns why it ended at once, if it did.
func (r *rig) followAs(token string) error {
	s, err := pb.NewRegistryClient(r.dial("10.0.0.3")).Watch(as(r.t, token))
	if err != nil {
		r.t.Fatal(err)
	}
	tell(r.t, s.Send, watchHello(false))
	m, err := within(r.t, s.Recv)
	if err == nil && m.GetEnd() != nil {
		return fmt.Errorf("%s", m.GetEnd().GetError().GetMessage())
	}
	return err
}

func TestStreamsAreAskedWhoTheyAre(t *testing.T) {
	cfg, told := guarded(t)
	inBubble(t, cfg, func(t *testing.T, r *rig) {
		for token, want := range map[string]codes.Code{"": codes.PermissionDenied, "wrong": codes.PermissionDenied, "reader": codes.PermissionDenied} {
			if code, text := hearEnd(t, r.attachAs(token).Recv); code != want || strings.Contains(text, `"`+token+`"`) {
				t.Errorf("token %q attaches: %v, %s", token, code, text)
			}
		}
		s := r.attachAs("orders")
		if w := hear(t, s.Recv).GetWelcome(); w == nil {
			t.Fatal("orders isn't welcome")
		}
		tell(t, s.Send, register("1"))
		if m := hear(t, s.Recv).GetRegistered(); m == nil {
			t.Fatal("orders isn't registered")
		}
		other := register("1")
		other.GetRegister().Record.Service = "billing"
		tell(t, s.Send, other)
		if m := hear(t, s.Recv).GetRefused(); m.GetError().GetKind() != pb.Kind_KIND_DENIED {
			t.Errorf("billing by orders: %v", m)
		}
		if p := r.fake.stream(0).peer; p.Identity != "token orders" {
			t.Errorf("the replica was told %q", p.Identity)
		}
		for token, want := range map[string]bool{"reader": true, "orders": true, "wrong": false} {
			s, err := pb.NewRegistryClient(r.dial("10.0.0.3")).Watch(as(t, token))
			if err != nil {
				t.Fatal(err)
			}
			tell(t, s.Send, watchHello(false))
			if m, err := within(t, s.Recv); (err == nil && m.GetWelcome() != nil) != want {
				t.Errorf("token %q follows: %v, %v", token, m, err)
			}
		}
	})
	for _, e := range *told {
		if e.Kind != eider.EventDenied || !strings.Contains(e.Detail, "10.0.0.") {
			t.Errorf("%+v", e)
		}
	}
	if len(*told) != 5 {
		t.Errorf("%d refusals were told, want 5", len(*told))
	}
}

// One identity takes no more than its share of streams, callers, instances and registrations; others have theirs.
func TestAttackOneIdentityTakesAll(t *testing.T) {
	cfg, _ := guarded(t)
	cfg.Limits = Limits{IdentityStreams: 4, IdentityCallers: 1, IdentityInstances: 2, IdentityRegister: Rate{PerSecond: 1, Burst: 3}}
	inBubble(t, cfg, func(t *testing.T, r *rig) {
		first, second := r.attachAs("orders"), r.attachAs("orders")
		hear(t, first.Recv)
		hear(t, second.Recv)
		answer := func(s attachClient, id string) *pb.Error {
			t.Helper()
			tell(t, s.Send, register(id))
			return hear(t, s.Recv).GetRefused().GetError()
		}
		if e := answer(first, "1"); e != nil {
			t.Fatal(e)
		}
		if e := answer(second, "2"); e != nil {
			t.Fatal(e)
		}
		if e := answer(second, "3"); e.GetKind() != pb.Kind_KIND_LIMITED || !strings.Contains(e.GetMessage(), "2 instances") {
			t.Errorf("a third instance: %v", e)
		}
		if e := answer(second, "2"); e.GetKind() != pb.Kind_KIND_LIMITED || e.GetRetryAfterMs() == 0 || !strings.Contains(e.GetMessage(), "at once") {
			t.Errorf("a fourth registration in a second: %v", e)
		}
		if err := r.followAs("orders"); err != nil {
			t.Fatal(err)
		}
		if err := r.followAs("orders"); err == nil || !strings.Contains(err.Error(), "1 callers") {
			t.Errorf("a second caller: %v", err)
		}
		if err := r.followAs("reader"); err != nil {
			t.Errorf("another identity: %v", err)
		}
		third := r.attachAs("orders")
		hear(t, third.Recv)
		if m, err := within(t, r.attachAs("orders").Recv); err != nil || !strings.Contains(m.GetEnd().GetError().GetMessage(), "4 streams") {
			t.Errorf("a fifth stream: %v, %v", m, err)
		}
		_ = first.CloseSend()
		hearEnd(t, first.Recv)
		pass(3 * time.Second)
		if e := answer(second, "3"); e != nil {
			t.Errorf("once a stream with an instance has ended: %v", e)
		}
	})
	inBubble(t, cfg, func(t *testing.T, r *rig) {
		s := r.attachAs("orders")
		hear(t, s.Recv)
		r.stop()
		if n := len(r.srv.shares.has); n != 0 {
			t.Errorf("%d shares are left behind", n)
		}
	})
}

func TestRecheckEndsWhoIsNoLongerLetIn(t *testing.T) {
	cfg, _ := guarded(t)
	now := time.Now()
	cfg.Guard.Now = func() time.Time { return now }
	inBubble(t, cfg, func(t *testing.T, r *rig) {
		s := r.attachAs("orders")
		hear(t, s.Recv)
		r.srv.Recheck()
		tell(t, s.Send, beat())
		if m := hear(t, s.Recv).GetBeaten(); m == nil {
			t.Fatal("it is still let in, and its stream ended")
		}
		empty := access.NewKeeper("/nowhere")
		cfg.Guard.Keeper = empty
		r.srv.Recheck()
		if m := hear(t, s.Recv).GetEnd(); !m.GetReattach() || !strings.Contains(m.GetError().GetMessage(), "token orders") {
			t.Errorf("revoked: %v", m)
		}
	})
}

// The tokens change between the moment in which somebody is let in and the one from which Recheck finds his stream.
func TestWhoIsRevokedWhileHeComesInIsEnded(t *testing.T) {
	cfg, _ := guarded(t)
	cfg.Guard.Now = func() time.Time { cfg.Guard.Keeper = access.NewKeeper("/nowhere"); return time.Now() }
	inBubble(t, cfg, func(t *testing.T, r *rig) {
		s := r.attachAs("orders")
		if m := hear(t, s.Recv).GetEnd(); !m.GetReattach() || !strings.Contains(m.GetError().GetMessage(), "token orders") {
			t.Errorf("revoked meanwhile: %v", m)
		}
	})
}

package wire

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
)

func drawRecord(t *rapid.T) eider.Record {
	return eider.Record{
		Key:         eider.Key{Service: "orders", ID: rapid.StringN(1, 20, 40).Draw(t, "id")},
		Incarnation: eider.Incarnation{Number: rapid.Uint64().Draw(t, "number"), Nonce: rapid.Uint64Min(1).Draw(t, "nonce")},
		Attachment:  rapid.Uint64().Draw(t, "attachment"),
		Version:     rapid.Uint64().Draw(t, "version"),
		Status:      eider.Status(rapid.IntRange(1, 7).Draw(t, "status")),
		Address:     rapid.StringN(0, 30, 60).Draw(t, "address"),
		Zone:        rapid.StringN(0, 10, 20).Draw(t, "zone"),
		Ports:       rapid.MapOfN(rapid.StringN(1, 8, 16), rapid.Uint16(), 0, 3).Draw(t, "ports"),
		Metadata:    rapid.MapOfN(rapid.StringN(1, 8, 16), rapid.StringN(0, 8, 16), 0, 3).Draw(t, "metadata"),
	}
}

// drawHold makes a hold, or none.
func drawHold(t *rapid.T) *eider.Hold {
	at := func(label string) time.Time {
		if ms := rapid.Int64Range(0, maxTime-1).Draw(t, label); ms > 0 {
			return time.UnixMilli(ms).UTC()
		}
		return time.Time{}
	}
	if rapid.Bool().Draw(t, "not held") {
		return nil
	}
	return &eider.Hold{Count: rapid.Uint64Min(1).Draw(t, "count"), Reason: rapid.StringN(0, 20, 40).Draw(t, "reason"),
		By: rapid.StringN(0, 20, 40).Draw(t, "by"), Since: at("since"), Until: at("until")}
}

// What is let go of is the leave of an incarnation, or one of its holds, and never the one for the other.
func TestADepartureNamesItsHold(t *testing.T) {
	for _, hold := range []uint64{0, 1, math.MaxUint64} {
		want := []eider.Departure{{Key: eider.Key{Service: "orders", ID: "1"}, Incarnation: eider.Incarnation{Nonce: 7}, Hold: hold}}
		if diff := cmp.Diff(want, ToDepartures(FromDepartures(want), "orders")); diff != "" {
			t.Errorf("hold %d: %s", hold, diff)
		}
	}
}

func TestDeparturesComeBackAsTheyWent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := []eider.Departure{{Key: eider.Key{Service: "orders", ID: "1"},
			Incarnation: eider.Incarnation{Nonce: rapid.Uint64Min(1).Draw(t, "nonce")}, Hold: rapid.Uint64().Draw(t, "hold")}}
		m := overTheWire(t, &pb.Ack{LetGo: FromDepartures(want)}, &pb.Ack{})
		if diff := cmp.Diff(want, ToDepartures(m.LetGo, "orders")); diff != "" {
			t.Fatal(diff)
		}
	})
}

// A hold that no node of ours makes is left out with its line, or loses what can't be.
func TestHoldsOfStrangers(t *testing.T) {
	if h, err := ToHold(&pb.Hold{Reason: "x"}); err == nil {
		t.Errorf("a hold without a count was read as %v", h)
	}
	h, err := ToHold(&pb.Hold{Count: 1, SinceMs: math.MinInt64, UntilMs: math.MaxInt64})
	if err != nil || !h.Since.IsZero() || !h.Until.IsZero() {
		t.Errorf("times that no page can write were read as %v, %v", h, err)
	}
	if h, err := ToHold(nil); h != nil || err != nil {
		t.Errorf("no hold was read as %v, %v", h, err)
	}
}

func overTheWire[M proto.Message](t *rapid.T, m, empty M) M {
	text, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(text, empty); err != nil {
		t.Fatal(err)
	}
	return empty
}

func TestInstancesComeBackAsTheyWent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := eider.Instance{Record: drawRecord(t), Suspicion: eider.Suspicion(rapid.IntRange(0, 31).Draw(t, "suspicion")), Hold: drawHold(t)}
		got, err := ToInstance(overTheWire(t, FromInstance(&in), &pb.Instance{}), "orders")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(in, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestACallersOwnSuspicionNeverTravels(t *testing.T) {
	in := eider.Instance{Record: eider.Record{Incarnation: eider.Incarnation{Nonce: 1}, Status: eider.Up}, Suspicion: eider.Absent}
	if m := FromInstance(&in); m.Suspicion != 0 {
		t.Errorf("sent suspicion %d", m.Suspicion)
	}
	m := FromInstance(&in)
	m.Suspicion = math.MaxUint32
	if got, err := ToInstance(m, "orders"); err != nil || got.Suspicion != observed {
		t.Errorf("read suspicion %v, %v", got.Suspicion, err)
	}
}

func TestGoneComesBackAsItWent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := eider.Gone{ID: "1", Incarnation: eider.Incarnation{Number: 1, Nonce: rapid.Uint64Min(1).Draw(t, "nonce")},
			Attachment: 2, Version: 3, Status: rapid.SampledFrom([]eider.Status{eider.Left, eider.Dead, eider.Lapsed}).Draw(t, "status")}
		got, err := ToGone(overTheWire(t, FromGone(&g), &pb.Gone{}))
		if err != nil || got != g {
			t.Fatalf("%v comes back as %v, %v", g, got, err)
		}
	})
}

func TestStrangersMessagesAreRefusedNotBelieved(t *testing.T) {
	good := func() *pb.Record {
		return &pb.Record{Id: "1", Incarnation: &pb.Incarnation{Nonce: 1}, Status: pb.Status_STATUS_UP}
	}
	for name, spoil := range map[string]func(*pb.Record){
		"no incarnation": func(r *pb.Record) { r.Incarnation = nil },
		"nonce 0":        func(r *pb.Record) { r.Incarnation.Nonce = 0 },
		"no status":      func(r *pb.Record) { r.Status = 0 },
		"status 99":      func(r *pb.Record) { r.Status = 99 },
		"status -1":      func(r *pb.Record) { r.Status = -1 },
		"port 70000":     func(r *pb.Record) { r.Ports = map[string]uint32{"x": 70000} },
	} {
		m := good()
		spoil(m)
		if r, err := ToRecord(m, "orders"); err == nil {
			t.Errorf("%s: read as %v", name, r)
		}
	}
	if _, err := ToRecord(nil, ""); err == nil {
		t.Error("no record was read as one")
	}
	if _, err := ToGone(&pb.Gone{Id: "1", Incarnation: &pb.Incarnation{Nonce: 1}, Status: pb.Status_STATUS_UP}); err == nil {
		t.Error("UP was read as an ending")
	}
	if got := ToDepartures([]*pb.Departure{{Id: "1"}, nil, {Id: "2", Nonce: 7}}, "orders"); len(got) != 1 || got[0].ID != "2" {
		t.Errorf("departures without a nonce name nothing: %v", got)
	}
}

func FuzzToView(f *testing.F) {
	seed, _ := proto.Marshal(&pb.View{Service: "orders", Instances: []*pb.Instance{FromInstance(&eider.Instance{Record: eider.Record{Incarnation: eider.Incarnation{Nonce: 1}, Status: eider.Up}})}})
	f.Add(seed)
	f.Fuzz(func(t *testing.T, text []byte) {
		var v pb.View
		if proto.Unmarshal(text, &v) != nil {
			return
		}
		for _, m := range v.Instances {
			if in, err := ToInstance(m, v.Service); err == nil && (in.Incarnation.Nonce == 0 || !in.Status.Live() && !in.Status.Gone()) {
				t.Fatalf("believed %v", in)
			}
		}
		for _, m := range v.Gone {
			if g, err := ToGone(m); err == nil && !g.Status.Gone() {
				t.Fatalf("believed %v", g)
			}
		}
	})
}

func TestErrorsKeepKindAndTime(t *testing.T) {
	err := ToError("register orders/1", FromError(&eider.Error{Kind: eider.Limited, Err: errors.New("too many"), RetryAfter: 1500 * time.Microsecond}))
	e, ok := errors.AsType[*eider.Error](err)
	if !ok || e.Kind != eider.Limited || e.RetryAfter != 2*time.Millisecond || e.Error() != "register orders/1: too many" {
		t.Errorf("%+v", err)
	}
	if ToError("x", nil) != nil {
		t.Error("no error is nil")
	}
	if got := eider.KindOf(ToError("x", &pb.Error{Kind: 77})); got != eider.Internal {
		t.Errorf("an unknown kind reads as %v", got)
	}
	if got := FromError(&eider.Error{Kind: eider.Closed}).Kind; got != pb.Kind_KIND_INTERNAL {
		t.Errorf("a kind that doesn't travel went as %v", got)
	}
}

func TestDurationsAreCapped(t *testing.T) {
	for d, want := range map[time.Duration]uint32{-1: 0, 0: 0, 1: 1, time.Second: 1000, math.MaxInt64: math.MaxUint32} {
		if got := FromDuration(d); got != want {
			t.Errorf("FromDuration(%d) = %d, want %d", d, got, want)
		}
	}
}

package eider_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker"
	"pgregory.net/rapid"
)

func TestStatusReadsWhatItWrites(t *testing.T) {
	for s := eider.Starting; s <= eider.Lapsed; s++ {
		got, err := eider.ParseStatus(strings.ToLower(s.String()))
		if err != nil || got != s {
			t.Errorf("ParseStatus(%s) = %v, %v", s, got, err)
		}
		if s.Live() == s.Gone() {
			t.Errorf("%s is live and gone, or neither", s)
		}
	}
	for _, bad := range []string{"", "UNKNOWN", "OUT_OF_SERVICE", "up "} {
		if s, err := eider.ParseStatus(bad); err == nil {
			t.Errorf("ParseStatus(%q) = %v, want an error", bad, s)
		}
	}
	if eider.StatusUnknown.Live() || eider.StatusUnknown.Gone() || eider.Status(99).String() != "Status(99)" {
		t.Error("no status is neither live nor gone")
	}
}

func TestSuspicionReadsWhatItWrites(t *testing.T) {
	for bits := range 64 {
		text, _ := eider.Suspicion(bits).MarshalText()
		var got eider.Suspicion
		if err := got.UnmarshalText(text); err != nil || got != eider.Suspicion(bits) {
			t.Errorf("%q reads as %d, %v; want %d", text, got, err, bits)
		}
	}
	var s eider.Suspicion
	if s.UnmarshalText([]byte("gossip")) == nil {
		t.Error("a reason that nobody knows was read")
	}
}

func TestIncarnationReadsWhatItWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := eider.Incarnation{Number: rapid.Uint64().Draw(t, "number"), Nonce: rapid.Uint64Min(1).Draw(t, "nonce")}
		got, err := eider.ParseIncarnation(in.String())
		if err != nil || got != in {
			t.Fatalf("%s reads as %v, %v", in, got, err)
		}
	})
}

func FuzzParseIncarnation(f *testing.F) {
	for _, seed := range []string{"7-00000000000000ff", "00000000000000ff", "", "-", "0-00000000000000ff", "7-0000000000000000", "7-+0000000000000f", "18446744073709551616-00000000000000ff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		in, err := eider.ParseIncarnation(text)
		if err != nil {
			return
		}
		if in.Nonce == 0 {
			t.Fatalf("%q was read with nonce 0", text)
		}
		if again, err := eider.ParseIncarnation(in.String()); err != nil || again != in {
			t.Fatalf("%q reads as %v, which reads as %v, %v", text, in, again, err)
		}
	})
}

func TestIncarnationsAreEqualByNonceAndOrderedByNumber(t *testing.T) {
	old, again, next := eider.Incarnation{Number: 0, Nonce: 5}, eider.Incarnation{Number: 3, Nonce: 5}, eider.Incarnation{Number: 4, Nonce: 2}
	if !old.Is(again) || again.Is(next) {
		t.Error("equality is by nonce")
	}
	if again.Compare(next) >= 0 || next.Compare(again) <= 0 || again.Compare(again) != 0 {
		t.Error("order is by number first")
	}
}

func record(t *rapid.T, label string) *eider.Record {
	small := rapid.Uint64Range(1, 3)
	return &eider.Record{
		Key:         eider.Key{Service: "orders", ID: "1"},
		Incarnation: eider.Incarnation{Number: small.Draw(t, label+" number"), Nonce: small.Draw(t, label+" nonce")},
		Attachment:  small.Draw(t, label+" attachment"),
		Version:     small.Draw(t, label+" version"),
	}
}

// The order of records is total: without that two nodes could keep different ones for ever.
func TestRecordsAreTotallyOrdered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := record(t, "a"), record(t, "b"), record(t, "c")
		if a.Compare(b) != -b.Compare(a) {
			t.Fatalf("%v and %v are ordered one way only", a, b)
		}
		if a.Compare(b) == 0 && !a.Equal(b) {
			t.Fatalf("%v and %v tie but differ", a, b)
		}
		if a.Compare(b) <= 0 && b.Compare(c) <= 0 && a.Compare(c) > 0 {
			t.Fatalf("%v, %v, %v go round in a circle", a, b, c)
		}
	})
}

func TestRecordCheckReportsEveryFaultWithItsValue(t *testing.T) {
	r := eider.Record{
		Key: eider.Key{Service: "Orders", ID: "a/b"}, Address: ":80", Zone: "z z",
		Ports:    map[string]uint16{"grpc": 0},
		Metadata: map[string]string{"": "x", "big": strings.Repeat("x", eider.MaxMetadataValue+1)},
	}
	err := r.Check()
	if err == nil {
		t.Fatal("no fault found")
	}
	for _, want := range []string{`"Orders"`, `"a/b"`, `":80" names no host`, `"z z"`, `"grpc" has number 0`, `key ""`, `"big" must be at most 1024 bytes`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error doesn't say %s:\n%v", want, err)
		}
	}
	good := eider.Record{Key: eider.Key{Service: "orders", ID: "h1:web:80"}, Address: "[fd00::7]:8080", Ports: map[string]uint16{"grpc": 9090}}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
}

func TestServiceNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"orders": true, "a": true, "a.b-c_d": true, "9lives": true, strings.Repeat("x", 128): true,
		"": false, "Orders": false, "-a": false, "a-": false, "a b": false, "a/b": false, "ä": false, strings.Repeat("x", 129): false,
	} {
		if err := eider.CheckService(name); (err == nil) != ok {
			t.Errorf("CheckService(%.20q) = %v", name, err)
		}
	}
	if eider.FoldService("Orders") != "orders" {
		t.Error("case doesn't count")
	}
}

func FuzzRecordCheck(f *testing.F) {
	f.Add("orders", "1", "127.0.0.1:80", "zone")
	f.Add("", "\x00", "[::1%eth0]:80", "é")
	f.Fuzz(func(t *testing.T, service, id, address, zone string) {
		r := eider.Record{Key: eider.Key{Service: service, ID: id}, Address: address, Zone: zone}
		if r.Check() != nil {
			return
		}
		if strings.ContainsAny(service+id+address+zone, " \n\r\t\x00") {
			t.Fatalf("white space or a control byte passed: %q %q %q %q", service, id, address, zone)
		}
		if _, ok := r.Endpoint(""); !ok {
			t.Fatal("a checked record has no endpoint")
		}
	})
}

func TestEndpoints(t *testing.T) {
	r := eider.Record{Address: "[fd00::7]:8080", Ports: map[string]uint16{"grpc": 9090}}
	for port, want := range map[string]string{"": "[fd00::7]:8080", "grpc": "[fd00::7]:9090", "none": ""} {
		if got, ok := r.Endpoint(port); got != want || ok != (want != "") {
			t.Errorf("Endpoint(%q) = %q, %v; want %q", port, got, ok, want)
		}
	}
}

func TestViewFindsById(t *testing.T) {
	v := eider.View{Instances: []eider.Instance{{Record: eider.Record{Key: eider.Key{ID: "a"}}}, {Record: eider.Record{Key: eider.Key{ID: "b"}}}}}
	if in, ok := v.Find("b"); !ok || in != &v.Instances[1] {
		t.Error("b isn't found")
	}
	if _, ok := v.Find("c"); ok {
		t.Error("c is found")
	}
}

func TestErrorsKeepTheirKind(t *testing.T) {
	cause := errors.New("cause")
	err := fmt.Errorf("outer: %w", &eider.Error{Op: "register orders/1", Kind: eider.Limited, Err: cause, RetryAfter: time.Second})
	if eider.KindOf(err) != eider.Limited || !errors.Is(err, cause) || err.Error() != "outer: register orders/1: cause" {
		t.Errorf("%v has kind %v", err, eider.KindOf(err))
	}
	if eider.KindOf(cause) != eider.Internal {
		t.Error("a stranger's error is internal")
	}
}

func TestErrorsAreTimeoutsIfTheirCauseIs(t *testing.T) {
	for cause, want := range map[error]bool{context.DeadlineExceeded: true, context.Canceled: false, nil: false} {
		e := &eider.Error{Op: "pick orders", Err: cause}
		if e.Err != nil {
			e.Err = fmt.Errorf("wrapped: %w", cause)
		}
		if got := e.Timeout(); got != want {
			t.Errorf("Timeout of %v is %v, want %v", e, got, want)
		}
	}
}

func TestWordsTravelAsJSON(t *testing.T) {
	v := eider.View{Service: "orders", Instances: []eider.Instance{{
		Record:    eider.Record{Key: eider.Key{Service: "orders", ID: "1"}, Incarnation: eider.Incarnation{Number: 2, Nonce: 255}, Status: eider.Draining},
		Suspicion: eider.StreamEnded | eider.BeatsMissed,
	}}}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"status":"DRAINING"`, `"incarnation":"2-00000000000000ff"`, `"suspicion":"stream ended, beats missed"`, `"service":"orders","id":"1"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s\nhas no %s", text, want)
		}
	}
	var back eider.View
	if err := json.Unmarshal(text, &back); err != nil || !back.Instances[0].Equal(&v.Instances[0]) {
		t.Errorf("read back: %v, %v", back, err)
	}
}

func TestMembersReadWell(t *testing.T) {
	ms := time.Millisecond
	for _, c := range []struct {
		m    eider.Member
		want string
	}{
		{eider.Member{Caller: "checkout@b2f19c", Kind: eider.Native, State: eider.NoAlternative, Cap: 8 * time.Second}, "checkout@b2f19c (native, disconnected, no alternative, ≤ 8s)"},
		{eider.Member{Caller: "checkout@b2f19c", Kind: eider.Native, State: eider.Waiting, Stream: true, Cap: 8 * time.Second}, "checkout@b2f19c (native, ≤ 8s)"},
		{eider.Member{Caller: "checkout@b2f19c", Kind: eider.Native, State: eider.LetGo, Settled: 12 * ms}, "checkout@b2f19c (native: let go after 12ms)"},
		{eider.Member{Caller: "callers from before", Kind: eider.FromBefore, State: eider.Waiting, Cap: 3400 * ms}, "callers from before (≤ 3.4s)"},
		{eider.Member{Caller: "callers from before", Kind: eider.FromBefore, State: eider.Capped, Settled: 3400 * ms}, "callers from before (capped after 3.4s)"},
		{eider.Member{Caller: "callers of b", Kind: eider.OfNode, State: eider.Waiting, Cap: 8 * time.Second}, "callers of b (≤ 8s)"},
	} {
		if got := c.m.String(); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

// A breaker's state and rule have one word each, here and in package breaker, which imports nothing of ours: whoever
// tells one converts the number.
func TestBreakersHaveTheWordsOfTheirRoom(t *testing.T) {
	for s := range eider.BreakerState(eider.BreakerStates + 1) {
		var got eider.BreakerState
		text, _ := s.MarshalText()
		known := int(s) < eider.BreakerStates
		if err := got.UnmarshalText(text); known && (err != nil || got != s) || !known && err == nil {
			t.Errorf("%q reads as %v, %v", text, got, err)
		}
		if in := breaker.State(s).String(); known != (in == s.String()) {
			t.Errorf("state %d is %q here and %q in its room", s, s, in)
		}
	}
	for r := range eider.BreakerRule(eider.BreakerRules + 1) {
		var got eider.BreakerRule
		text, _ := r.MarshalText()
		known := int(r) < eider.BreakerRules
		if err := got.UnmarshalText(text); known && (err != nil || got != r) || !known && err == nil {
			t.Errorf("%q reads as %v, %v", text, got, err)
		}
		if in := breaker.Rule(r).String(); known != (in == r.String()) {
			t.Errorf("rule %d is %q here and %q in its room", r, r, in)
		}
	}
}

func TestTheGraverStateLetsLessThrough(t *testing.T) {
	order := []eider.BreakerState{eider.BreakerClosed, eider.BreakerForcedClosed, eider.BreakerMetricsOnly, eider.BreakerRamping,
		eider.BreakerHalfOpen, eider.BreakerOpen, eider.BreakerForcedOpen}
	for i, a := range order {
		for j, b := range order {
			if a.Graver(b) != (i > j) {
				t.Errorf("%s is graver than %s: %v", a, b, a.Graver(b))
			}
		}
		if a.Rejects() != (i >= 4) {
			t.Errorf("%s rejects: %v", a, a.Rejects())
		}
	}
	if eider.BreakerState(99).Graver(eider.BreakerClosed) || eider.BreakerClosed.Graver(99) {
		t.Error("a state that is none is graver than another, or less")
	}
}

package ledger

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eiderhq/eider"
)

// What a stranger who may speak to the node tries against others. Each test is a row of docs/security.md.

// show registers with a proof, from an address.
func (w *world) show(a *actor, rec eider.Record, p Proof) (Grant, error) {
	w.t.Helper()
	g, fx, err := w.tb.Register(w.now, a.session, rec, 0, p)
	w.saw(fx)
	return g, err
}

func secretOf(b byte) (s Secret) { s[0] = b; return s }

func recordOf(id string, nonce, attachment uint64) eider.Record {
	return eider.Record{Key: eider.Key{Service: "orders", ID: id}, Incarnation: eider.Incarnation{Nonce: nonce}, Attachment: attachment,
		Status: eider.Up, Address: "10.0.0.1:80"}
}

// Whoever has read the nonce of an instance in a view can't attach as it: not without its secret, nor with another.
func TestAttackAttachesForAnother(t *testing.T) {
	for name, first := range map[string]Proof{"drawn by the node": {Fresh: secretOf(1)}, "shown by the process": {Shown: secretOf(1), Fresh: secretOf(9)}} {
		w := fresh(t)
		owner, thief := w.attach("orders@1"), w.attach("thief@1")
		g, err := w.show(owner, recordOf("1", 7, 1), first)
		if err != nil || g.Secret != secretOf(1) {
			t.Fatalf("%s: %v, %v", name, g.Secret, err)
		}
		stolen := recordOf("1", 7, 1000)
		stolen.Address = "10.0.0.66:80"
		for what, p := range map[string]Proof{"none": {}, "another": {Shown: secretOf(2), Fresh: secretOf(3)}, "its digest": {Shown: digest(secretOf(1))}} {
			if _, err := w.show(thief, stolen, p); eider.KindOf(err) != eider.Stale || !strings.Contains(err.Error(), "has a secret that wasn't shown") {
				t.Errorf("%s, the thief shows %s: %v", name, what, err)
			}
		}
		if in, _ := w.tb.Instance(eider.Key{Service: "orders", ID: "1"}); in.Address != "10.0.0.1:80" || in.Attachment != 1 {
			t.Errorf("%s: after the attack %v", name, in)
		}
		w.saw(w.tb.Detach(w.now, owner.session, Lost))
		w.advance(30 * time.Second) // also once it has lapsed
		if _, err := w.show(thief, stolen, Proof{}); eider.KindOf(err) != eider.Stale {
			t.Errorf("%s, of one that has ended: %v", name, err)
		}
		again := w.attach("orders@1")
		if g, err := w.show(again, recordOf("1", 7, 2), Proof{Shown: secretOf(1)}); err != nil || g.Secret != secretOf(1) {
			t.Errorf("%s: its own process can't attach again: %v", name, err)
		}
	}
}

// A number from the clouds, or the highest there is, doesn't keep the rightful process out.
func TestAttackPoisonsIncarnations(t *testing.T) {
	for _, number := range []uint64{1 << 40, maxNumber, maxNumber + 1, 1<<64 - 1} {
		w := fresh(t)
		thief := w.attach("thief@1")
		poison := recordOf("1", 66, 1<<63)
		poison.Incarnation.Number = number
		if _, err := w.show(thief, poison, Proof{Fresh: secretOf(1)}); err != nil {
			t.Fatal(err)
		}
		w.saw(w.tb.Detach(w.now, thief.session, Lost))
		w.advance(3 * time.Second)
		owner := w.attach("orders@1")
		g, err := w.show(owner, recordOf("1", 7, 1), Proof{Fresh: secretOf(2)})
		if err != nil {
			t.Errorf("number %d keeps the owner out: %v", number, err)
			continue
		}
		again := g.Record
		again.Attachment, again.Version = 2, 0
		if g, err = w.show(w.attach("orders@1"), again, Proof{Shown: secretOf(2)}); err != nil || !g.Record.Incarnation.Is(again.Incarnation) {
			t.Errorf("number %d: the owner can't attach again: %v", number, err)
		}
	}
}

// at puts an actor's streams at an address, and gives it an identity.
func (w *world) followAs(id Follower, caller, addr, identity string) {
	w.t.Helper()
	w.saw(w.tb.Follow(w.now, id, Peer{Caller: caller, Addr: netip.MustParseAddr(addr), Identity: identity}))
	fx, err := w.tb.Subscribe(w.now, id, "orders", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.saw(fx)
}

// A retry-after that somebody got under a caller's name delays nobody but him who got it.
func TestAttackPostponesAnother(t *testing.T) {
	for name, thief := range map[string]Peer{
		"from another address":  {Caller: "checkout@1", Addr: netip.MustParseAddr("10.0.0.66")},
		"with another identity": {Caller: "checkout@1", Addr: netip.MustParseAddr("10.0.0.2"), Identity: "token thief"},
	} {
		w := fresh(t)
		w.mustRegister("p", "orders/1", "10.0.0.1:81")
		w.followAs(901, "checkout@1", "10.0.0.2", "")
		w.leave("p", "orders/1")
		w.saw(w.tb.ExtendCaller(w.now, thief, 20*time.Second))
		if d := w.drain("orders/1"); d.Bound != 8*time.Second {
			t.Errorf("%s somebody was told to come back, and the owner of the name may take %s", name, d.Bound)
		}
		w.followAs(902, "checkout@1", thief.Addr.String(), thief.Identity)
		w.saw(w.tb.ExtendCaller(w.now, thief, 20*time.Second))
		d := w.drain("orders/1")
		for _, m := range d.Members {
			if want := 8 * time.Second; m.Caller == "checkout@1" && m.Cap != want || m.Caller != "checkout@1" && m.Cap != want+20*time.Second {
				t.Errorf("%s: %s may take %s", name, m.Caller, m.Cap)
			}
		}
		w.saw(w.tb.ExtendCaller(w.now, Peer{Caller: "checkout@1", Addr: netip.MustParseAddr("10.0.0.2")}, 5*time.Second))
		if d := w.drain("orders/1"); !slices.ContainsFunc(d.Members, func(m eider.Member) bool { return m.Caller == "checkout@1" && m.Cap == 13*time.Second }) {
			t.Errorf("%s: the owner was told to come back, and the members are %+v", name, d.Members)
		}
	}
}

// A retry-after that somebody got who only named an instance puts off nobody's suspicion and lapse.
func TestAttackPutsOffAnothersLapse(t *testing.T) {
	for name, c := range map[string]struct {
		shown Secret
		want  eider.Status
	}{"a stranger": {secretOf(2), eider.Lapsed}, "nobody": {Secret{}, eider.Lapsed}, "its own process": {secretOf(1), eider.Up}} {
		w := fresh(t)
		a := w.attach("orders@1")
		if _, err := w.show(a, recordOf("1", 7, 1), Proof{Shown: secretOf(1)}); err != nil {
			t.Fatal(err)
		}
		w.saw(w.tb.Extend(w.now, key("orders/1"), c.shown, 10*time.Second))
		a.beats = false
		w.advance(25 * time.Second)
		status := eider.Lapsed
		if in, ok := w.tb.Instance(key("orders/1")); ok {
			status = in.Status
		}
		if status != c.want {
			t.Errorf("%s was told to come back in 10s, and the silent instance is %s after 25s, want %s", name, status, c.want)
		}
	}
}

// Whoever comes under a caller's name from elsewhere acknowledges for himself alone, and says goodbye for himself alone.
func TestAttackForgesAnAcknowledgement(t *testing.T) {
	for name, c := range map[string]struct{ addr, id, thiefAddr, thiefID string }{
		"from another address":  {"10.0.0.2", "", "10.0.0.66", ""},
		"from beyond loopback":  {"127.0.0.1", "", "10.0.0.66", ""},
		"with another identity": {"10.0.0.2", "token checkout", "10.0.0.2", "token thief"},
		"with none":             {"10.0.0.2", "token checkout", "10.0.0.2", ""},
	} {
		w := fresh(t)
		owner := w.attach("orders@1")
		g, err := w.show(owner, recordOf("1", 7, 1), Proof{})
		if err != nil {
			t.Fatal(err)
		}
		w.mustRegister("orders@2", "orders/2", "10.0.0.9:80")
		w.followAs(901, "checkout@1", c.addr, c.id)
		w.followAs(902, "checkout@1", c.thiefAddr, c.thiefID)
		fx, err := w.tb.Leave(w.now, owner.session, g.Record.Key, 0)
		if err != nil {
			t.Fatal(err)
		}
		w.saw(fx)
		dep := g.Record.Departure()
		w.saw(w.tb.Ack(w.now, 902, "orders", 0, []eider.Departure{dep}, nil))
		if d, _ := w.tb.Drain(dep); d.Reached || d.Open != 1 {
			t.Errorf("%s: after a forged acknowledgement %+v", name, d)
		}
		w.saw(w.tb.Goodbye(w.now, 902))
		if d, _ := w.tb.Drain(dep); d.Reached || d.Open != 1 {
			t.Errorf("%s: after a forged goodbye %+v", name, d)
		}
		w.saw(w.tb.Ack(w.now, 901, "orders", 0, []eider.Departure{dep}, nil))
		if d, _ := w.tb.Drain(dep); !d.Reached {
			t.Errorf("%s: after its own acknowledgement %+v", name, d)
		}
	}
}

// A name that a node composes is nobody's to choose: whoever had it first would be taken for its owner.
func TestAttackComesUnderAComposedName(t *testing.T) {
	for _, name := range []string{"checkout@1 from 10.0.0.2", "checkout@1 from from 10.0.0.2"} {
		w := fresh(t)
		owner := w.attach("orders@1")
		g, err := w.show(owner, recordOf("1", 7, 1), Proof{})
		if err != nil {
			t.Fatal(err)
		}
		w.mustRegister("orders@2", "orders/2", "10.0.0.9:80")
		w.followAs(902, name, "10.0.0.66", "")
		w.followAs(901, "checkout@1", "10.0.0.2", "")
		if n := w.tb.Counts().Callers; n != 2 {
			t.Errorf("%s: %d callers, want 2", name, n)
		}
		fx, err := w.tb.Leave(w.now, owner.session, g.Record.Key, 0)
		if err != nil {
			t.Fatal(err)
		}
		w.saw(fx)
		dep := g.Record.Departure()
		w.saw(w.tb.Ack(w.now, 902, "orders", 0, []eider.Departure{dep}, nil))
		w.saw(w.tb.Goodbye(w.now, 902))
		if d, _ := w.tb.Drain(dep); d.Reached || d.Open != 1 {
			t.Errorf("%s: after a forged acknowledgement %+v", name, d)
		}
	}
}

// Two streams of one process are one caller, also when they come from two addresses of this machine, or two of one
// identity.
func TestStreamsOfOnePrincipalAreOneCaller(t *testing.T) {
	for name, c := range map[string]struct{ addr, other, id string }{
		"of one address": {"10.0.0.2", "10.0.0.2", ""}, "of this machine": {"127.0.0.1", "::1", ""}, "of one identity": {"10.0.0.2", "10.0.0.3", "token a"},
	} {
		w := fresh(t)
		w.followAs(901, "checkout@1", c.addr, c.id)
		w.followAs(902, "checkout@1", c.other, c.id)
		if n := w.tb.Counts().Callers; n != 1 {
			t.Errorf("%s: %d callers", name, n)
		}
	}
}

// An instance is left for by the stream that it is on, and by no other.
func TestAttackLeavesForAnother(t *testing.T) {
	w := fresh(t)
	g, err := w.show(w.attach("orders@1"), recordOf("1", 7, 1), Proof{})
	if err != nil {
		t.Fatal(err)
	}
	for _, thief := range []*actor{w.attach("thief@1"), w.attach("orders@1x")} {
		if _, err := w.tb.Leave(w.now, thief.session, g.Record.Key, 0); err == nil {
			t.Error("a stranger leaves for it")
		}
		if _, err := w.tb.SetStatus(w.now, thief.session, g.Record.Key, eider.Down); err == nil {
			t.Error("a stranger sets its status")
		}
		if _, err := w.tb.Left(w.now, thief.session, g.Record.Key); err == nil {
			t.Error("a stranger ends it")
		}
	}
	if in, ok := w.tb.Instance(g.Record.Key); !ok || in.Status != eider.Up {
		t.Errorf("after the attack: %v", in)
	}
}

// A registration that was recorded and is sent again changes nothing.
func TestAttackReplays(t *testing.T) {
	w := fresh(t)
	owner := w.attach("orders@1")
	first := recordOf("1", 7, 1)
	proof := Proof{Shown: secretOf(1)}
	g, err := w.show(owner, first, proof)
	if err != nil {
		t.Fatal(err)
	}
	fx, err := w.tb.Leave(w.now, owner.session, g.Record.Key, 0)
	if err != nil {
		t.Fatal(err)
	}
	w.saw(fx)
	if fx, err = w.tb.Left(w.now, owner.session, g.Record.Key); err != nil {
		t.Fatal(err)
	}
	w.saw(fx)
	for _, again := range []eider.Record{first, recordOf("1", 7, 2), recordOf("1", 7, 1<<40)} {
		if _, err := w.show(w.attach("thief@1"), again, proof); eider.KindOf(err) != eider.Stale {
			t.Errorf("attachment %d is taken again: %v", again.Attachment, err)
		}
	}
	if _, ok := w.tb.Instance(g.Record.Key); ok {
		t.Error("it is back")
	}
}

// In a mass of refusals one witness ends no more than the node itself would: whoever lies about all of them needs a
// second identity or address, and calling himself otherwise gives him none.
func TestAttackOneWitnessEndsMany(t *testing.T) {
	w := fresh(t)
	const n = 20
	w.fleet(n)
	for range 100 { // streams of others, so that this is no storm
		w.follow(fmt.Sprint("c", w.streams))
	}
	w.followAs(901, "liar@1", "10.0.0.66", "")
	w.followAs(902, "liar@2", "10.0.0.66", "")
	w.followAs(903, "honest@1", "10.0.0.3", "")
	w.advance(2 * time.Second)
	for i := range n {
		w.kill(fmt.Sprint("p", i))
	}
	w.advance(time.Second)
	before := w.count(eider.EventDead)
	doubtAll := func(f Follower) {
		for i := range n {
			w.saw(w.tb.Doubt(w.now, f, w.departure(fmt.Sprint("orders/", i))))
		}
	}
	doubtAll(901)
	doubtAll(902)
	if more := w.count(eider.EventDead) - before; more < 1 || more > 3 {
		t.Fatalf("one witness by two names has ended %d, at most 3 are believed", more)
	}
	doubtAll(903)
	if all := w.count(eider.EventDead); all != n {
		t.Errorf("two witnesses: %d dead of %d", all, n)
	}
}

// What a process says of its address makes the node dial nothing but where that process comes from, or what its
// operator has listed.
func TestAttackMakesTheNodeDial(t *testing.T) {
	networks := func(text ...string) (out []netip.Prefix) {
		for _, one := range text {
			out = append(out, netip.MustParsePrefix(one))
		}
		return out
	}
	for _, c := range []struct {
		address, from string
		networks      []netip.Prefix
		dialled       bool
	}{
		{"10.0.0.1:80", "10.0.0.1", nil, true},
		{"10.0.0.1:80", "::ffff:10.0.0.1", nil, true},
		{"10.0.0.2:80", "10.0.0.1", nil, false},
		{"127.0.0.1:80", "10.0.0.1", nil, false},
		{"127.0.0.1:80", "127.0.0.1", nil, true},
		{"[::1]:80", "10.0.0.1", nil, false},
		{"[::ffff:127.0.0.1]:80", "10.0.0.1", nil, false},
		{"10.9.0.2:80", "10.0.0.1", networks("10.9.0.0/16"), true},
		{"10.8.0.2:80", "10.0.0.1", networks("10.9.0.0/16"), false},
		{"169.254.169.254:80", "10.0.0.1", nil, false},
		{"169.254.169.254:80", "169.254.169.254", nil, false},
		{"169.254.169.254:80", "10.0.0.1", networks("0.0.0.0/0"), false},
		{"[::ffff:169.254.169.254]:80", "10.0.0.1", networks("0.0.0.0/0", "::/0"), false},
		{"169.254.7.7:80", "10.0.0.1", networks("169.254.7.0/24"), true},
		{"[fe80::1]:80", "fe80::1", nil, false},
		{"[fe80::1%eth0]:80", "10.0.0.1", networks("::/0"), false},
		{"0.0.0.0:80", "10.0.0.1", networks("0.0.0.0/0"), false},
		{"[::]:80", "10.0.0.1", networks("::/0"), false},
		{"224.0.0.1:80", "10.0.0.1", networks("0.0.0.0/0"), false},
		{"255.255.255.255:80", "10.0.0.1", networks("0.0.0.0/0"), false},
		{"10.0.0.1:0", "10.0.0.1", nil, false},
		{"metadata.internal:80", "10.0.0.1", networks("0.0.0.0/0", "::/0"), false},
		{"localhost:80", "10.0.0.1", networks("127.0.0.0/8"), false},
	} {
		cfg := Config{Networks: c.networks}
		if got := cfg.dialable(c.address, netip.MustParseAddr(c.from)); got != c.dialled {
			t.Errorf("%s told from %s, %v listed: dialled %v", c.address, c.from, c.networks, got)
		}
	}
	w := fresh(t)
	inner := recordOf("1", 7, 1)
	inner.Address = "10.0.0.2:22"
	if _, err := w.show(w.attach("thief@1"), inner, Proof{}); err != nil {
		t.Fatal(err)
	}
	w.kill("thief@1")
	w.advance(time.Minute)
	if strings.Contains(w.log.String(), "dial ") {
		t.Errorf("the node dials where it was told to:\n%s", w.log.String())
	}
}

// A node that remembers asks for the secret after its restart as well; of its memory nobody can tell the secret.
func TestAttackAttachesForAnotherAfterARestart(t *testing.T) {
	w := remembering(t)
	if _, err := w.show(w.attach("orders@1"), recordOf("1", 7, 1), Proof{Shown: secretOf(1)}); err != nil {
		t.Fatal(err)
	}
	m := w.memory(false)
	if len(m.Instances) != 1 || m.Instances[0].Secret == (Secret{}) || m.Instances[0].Secret == secretOf(1) {
		t.Fatalf("kept: %+v", m.Instances)
	}
	w.restart(time.Minute, m)
	for _, p := range []Proof{{}, {Fresh: secretOf(2)}, {Shown: secretOf(2)}, {Shown: m.Instances[0].Secret}} {
		if _, err := w.show(w.attach("thief@1"), recordOf("1", 7, 100), p); eider.KindOf(err) != eider.Stale {
			t.Errorf("the thief shows %v: %v", p, err)
		}
	}
	if _, err := w.show(w.attach("orders@1"), recordOf("1", 7, 2), Proof{Shown: secretOf(1)}); err != nil {
		t.Errorf("its own process: %v", err)
	}
}

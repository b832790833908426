package registry

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
)

func TestAdvertise(t *testing.T) {
	tcp := func(local, remote string) *connEnd {
		return &connEnd{net.TCPAddrFromAddrPort(mustAddr(local)), net.TCPAddrFromAddrPort(mustAddr(remote))}
	}
	near, far := tcp("127.0.0.1:5001", "127.0.0.1:8762"), tcp("10.0.0.7:5001", "10.0.0.1:8762")
	for _, row := range []struct {
		address string
		ends    *connEnd
		want    string // an error if it has a space
	}{
		{"10.0.0.9:80", near, "10.0.0.9:80"},
		{"orders.internal:80", far, "orders.internal:80"},
		{":80", near, "127.0.0.1:80"},
		{":80", far, "10.0.0.7:80"},
		{"0.0.0.0:80", far, "10.0.0.7:80"},
		{"[::]:80", tcp("[fd00::7]:5001", "[fd00::1]:8762"), "[fd00::7]:80"},
		{"[::]:80", tcp("[::ffff:10.0.0.7]:5001", "10.0.0.1:8762"), "10.0.0.7:80"},
		{"127.0.0.1:80", near, "127.0.0.1:80"},
		{"127.0.0.1:80", far, "is a loopback address"},
		{"localhost:80", far, "is a loopback address"},
		{"[::1]:80", far, "is a loopback address"},
		{":80", nil, "no IP address to lend"},
		{":80", &connEnd{pipeAddr{}, pipeAddr{}}, "no IP address to lend"},
		{"127.0.0.1:80", &connEnd{pipeAddr{}, pipeAddr{}}, "127.0.0.1:80"},
		{"nonsense", far, "must be host:port"},
	} {
		got, err := advertise(row.address, row.ends)
		if err != nil {
			got = err.Error()
			if eider.KindOf(err) != eider.Invalid {
				t.Errorf("advertise(%q) = %v, want an invalid one", row.address, err)
			}
		}
		if got != row.want && !(strings.Contains(row.want, " ") && strings.Contains(got, row.want)) {
			t.Errorf("advertise(%q) = %q, want %q", row.address, got, row.want)
		}
	}
}

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

// An instance that names no host is known by the address of the connection, and keeps its id when that changes.
func TestAddressOfTheConnectionIsAdvertised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		node.local = net.TCPAddrFromAddrPort(mustAddr("10.0.0.7:5001"))
		l, err := node.open(Config{}).Register(Registration{Service: "orders", Address: ":8080"})
		if err != nil {
			t.Fatal(err)
		}
		if id := l.State().As.ID; id != "" {
			t.Errorf("the id is %q before any connection", id)
		}
		c := node.attach()
		m := until(c, (*pb.AttachRequest).GetRegister).GetRecord()
		if m.GetAddress() != "10.0.0.7:8080" || m.GetId() != "10.0.0.7:8080" {
			t.Errorf("registered as %v", m)
		}
		node.kill(errRefused)
		node.local = net.TCPAddrFromAddrPort(mustAddr("10.0.0.8:5001"))
		node.start()
		m = until(node.attach(), (*pb.AttachRequest).GetRegister).GetRecord()
		if m.GetAddress() != "10.0.0.8:8080" || m.GetId() != "10.0.0.7:8080" {
			t.Errorf("from another address it registered as %v", m)
		}
	})
}

func TestLoopbackTowardsARemoteRegistryIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		node.local = net.TCPAddrFromAddrPort(mustAddr("10.0.0.7:5001"))
		l, _ := node.open(Config{}).Register(Registration{Service: "orders", Address: "127.0.0.1:8080"})
		c := node.attach()
		synctest.Wait()
		if s := l.State(); s.Listed || eider.KindOf(s.Err) != eider.Invalid || !strings.Contains(s.String(), "set Registration.Address") {
			t.Errorf("the state is %v", s)
		}
		if said := idle(c, 10*answerWithin); len(said) != 0 {
			t.Errorf("it was told: %v", said)
		}
	})
}

func mustAddr(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

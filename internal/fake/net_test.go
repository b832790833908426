package fake

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

// TestADeadPortStaysDead: nobody gets it, neither to listen there nor to dial from there.
func TestADeadPortStaysDead(t *testing.T) {
	address := DeadPort(t)
	from, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	for name, dial := range map[string]net.Dialer{"from anywhere": {}, "from there": {LocalAddr: from}} {
		if c, err := dial.Dial("tcp", address); err == nil {
			c.Close()
			t.Errorf("dialled %s, somebody is there", name)
		} else if name == "from anywhere" && !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dialled %s: %v", name, err)
		}
	}
	if l, err := net.Listen("tcp", address); err == nil {
		l.Close()
		t.Error("somebody else may listen there")
	}
}

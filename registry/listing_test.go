package registry

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
)

func TestRegisterListsAndCarriesTheNumber(t *testing.T) {
	bubble(t, func(t *testing.T, node *fake) {
		reg := node.open(Config{Zone: "z1"})
		l, err := reg.Register(orders)
		if err != nil {
			t.Fatal(err)
		}
		if s := l.State(); s.Listed || s.Err == nil || s.Bound != 8*time.Second {
			t.Errorf("before any answer the state is %+v", s)
		}
		c := node.attach()
		m := until(c, (*pb.AttachRequest).GetRegister)
		if r := m.GetRecord(); r.GetStatus() != pb.Status_STATUS_UP || r.GetAttachment() != 1 || r.GetIncarnation().GetNumber() != 0 ||
			r.GetIncarnation().GetNonce() == 0 || r.GetZone() != "z1" || r.GetAddress() != orders.Address {
			t.Errorf("registered as %v", r)
		}
		c.say(grant(m, 7))
		synctest.Wait()
		if s := l.State(); !s.Listed || s.In.Number != 7 || s.Bound != 3*time.Second || s.Err != nil {
			t.Errorf("after the grant the state is %+v", s)
		}
		c.bye <- nil // the node ends the stream
		again := until(node.attach(), (*pb.AttachRequest).GetRegister).GetRecord()
		if again.GetAttachment() != 2 || again.GetIncarnation().GetNumber() != 7 || again.GetIncarnation().GetNonce() != m.GetRecord().GetIncarnation().GetNonce() {
			t.Errorf("attached again as %v, want the same incarnation with attachment 2", again)
		}
		if s := l.State(); s.Listed || eider.KindOf(s.Err) != eider.Unavailable {
			t.Errorf("without a stream the state is %+v", s)
		}
	})
}

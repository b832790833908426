package registry

import (
	"testing"
	"testing/synctest"

	pb "github.com/eiderhq/eider/api/eider/v1"
)

func trialOf(service, id string, nonce uint64) *pb.WatchReply {
	return &pb.WatchReply{Kind: &pb.WatchReply_Trial{Trial: &pb.Trial{Service: service, Id: id, Nonce: nonce}}}
}

// A trial reaches every follower of its service that takes any, and one of them makes it.
func TestATrialIsForOneOfAllFollowers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		reg := node.open(Config{})
		s, c := followed(t, node, reg)
		var got []*Trial
		s.Trials(func(trial *Trial) { got = append(got, trial) })
		other, err := reg.Follow("orders")
		if err != nil {
			t.Fatal(err)
		}
		other.Trials(func(trial *Trial) { got = append(got, trial) })
		if _, err := reg.Follow("orders"); err != nil { // takes none
			t.Fatal(err)
		}
		c.say(trialOf("orders", "a", 1))
		synctest.Wait()
		if len(got) != 2 || got[0] != got[1] || got[0].ID != "a" || got[0].Service != "orders" || got[0].Incarnation.Nonce != 1 {
			t.Fatalf("the followers got %+v, want the same one", got)
		}
		if !got[0].Claim() || got[1].Claim() || got[0].Claim() {
			t.Error("a trial is to be claimed once")
		}
		c.say(trialOf("stock", "a", 1), trialOf("orders", "", 1), trialOf("orders", "a", 0))
		other.Close()
		c.say(trialOf("orders", "b", 2))
		synctest.Wait()
		if len(got) != 3 || got[2].ID != "b" {
			t.Errorf("then they got %+v, want one more, of b", got[2:])
		}
	})
}

// It comes after the view that says why.
func TestATrialComesAfterItsView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		s, c := followed(t, node, node.open(Config{}))
		var seen uint64
		at := map[string]uint64{}
		s.Trials(func(trial *Trial) { at[trial.ID] = seen })
		s.Push(func(u Update) { seen = u.View.Cursor.Number })
		c.say(viewOf(1, 2, 1, "c"), trialOf("orders", "a", 1), viewOf(1, 3, 2, "d"), trialOf("orders", "b", 1))
		synctest.Wait()
		if at["a"] != 2 || at["b"] != 3 {
			t.Errorf("trials came at %v, want a at 2 and b at 3", at)
		}
	})
}

package roster

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/registry"
)

var _ teller = (*registry.Subscription)(nil)

// TestBreakersAreToldUpstream: each turn, the newest word, and nothing of who leaves or is held.
func TestBreakersAreToldUpstream(t *testing.T) {
	inWorld(t, Config{}, "", func(t *testing.T, w *world) {
		w.push("a UP", "b UP", "c UP")
		calls := w.hang("a", 2)
		calls[0].Done(Failure)
		synctest.Wait()
		w.want("after one failure", w.src.told(), "")
		calls[1].Done(Failure)
		synctest.Wait()
		v := w.src.verdicts[0]
		if v.Count != 2 || v.Of != 2 || !v.Since.Equal(time.Now()) || !v.Retry.After(time.Now()) || v.Incarnation.Nonce != nonceOf("a", 1) || v.Service != "orders" {
			t.Errorf("told %+v", v)
		}
		w.want("after two", w.src.told(), "a open failures in a row")
		w.wait(time.Second)
		trial := w.take()
		synctest.Wait()
		w.want("a trial", w.src.told(), "a half-open failures in a row")
		trial.Done(Success)
		synctest.Wait()
		w.want("well again", w.src.told(), "a closed")
		w.outcomeOf("b", Refusal)
		w.want("a refusal", w.src.told(), "b open refused")
		w.push("a UP", "b!1 UP", "c UP")
		w.want("held", w.src.told(), "b closed")
		w.push("a UP", "b UP", "c UP")
		w.want("released", w.src.told(), "b open refused")
		w.push("a UP", "b gone DEAD", "c UP")
		back := w.view("a UP", "b UP", "c UP")
		back.Instances[1].Attachment = 2
		w.pushView(back)
		w.want("dead and revived", w.src.told(), "b open refused")
	})
}

// TestVerdictsAreCoalesced: however often a breaker turns while the tender is at something else, it is told of once.
func TestVerdictsAreCoalesced(t *testing.T) {
	c := Config{LetGo: func(eider.Instance) { <-time.After(time.Minute) }, Breaker: breaker.Config{OpenFor: time.Second, MaxOpen: time.Second, Jitter: -1}}
	inWorld(t, c, "", func(t *testing.T, w *world) {
		w.push("a UP", "b UP", "c UP")
		w.push("a UP", "b UP", "c DRAINING") // the tender sleeps
		w.outcomeOf("a", Refusal)
		for range 10 {
			w.wait(time.Second)
			c := w.take()
			c.Done(Refusal)
		}
		w.wait(2 * time.Minute)
		w.want("told", w.src.told(), "a open trial")
	})
}

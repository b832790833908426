package roster

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/registry"
)

// Whoever makes companions may block; the goroutine that reads the stream must not, since every service's
// views and answers come through it. What comes meanwhile is taken afterwards, newest wins.
func TestASlowCompanionHoldsUpNoReader(t *testing.T) {
	var held chan struct{}
	c := Config{Companion: func(eider.Instance) Companion {
		if held != nil {
			<-held
		}
		return nil
	}}
	inWorld(t, c, "", func(t *testing.T, w *world) {
		w.push("a UP")
		held = make(chan struct{})
		read := func(lines ...string) {
			done := make(chan struct{})
			go func() {
				w.pushed(registry.Update{View: w.view(lines...), Connected: true, Heard: time.Now(), Lease: 20 * time.Second})
				close(done)
			}()
			synctest.Wait()
			select {
			case <-done:
			default:
				t.Fatalf("the reader is held up by %v", lines)
			}
		}
		read("a UP", "b UP")
		read("a DRAINING", "b UP")
		read("a DRAINING", "b UP", "c UP")
		w.want("picked meanwhile", w.picked(), "a")
		close(held)
		synctest.Wait()
		w.want("picked then", w.picked(), "b c")
		w.want("acknowledged", w.src.last(), "1:4 let go a")
		read("b DOWN", "c UP") // nobody new: taken at once
		w.want("picked at last", w.picked(), "c")
	})
}

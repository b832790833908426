package eiderhttp

import (
	"net/http"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/internal/fake"
)

// ask has the node ask for a trial, and waits until the roster has heard.
func (w *world) ask(in eider.Instance) {
	w.t.Helper()
	w.Ask(in)
	r := (*w.tr.services.Load())[in.Service].roster
	for end := time.Now().Add(patience); !r.TrialWaits(); {
		if time.Now().After(end) {
			w.t.Fatal("the trial never came")
		}
		<-time.After(time.Millisecond)
	}
}

// TestU3ATrialGoesToWhoMayHang: the registry asks, one request that can be sent again goes there, and elsewhere at once if
// there is no answer.
func TestU3ATrialGoesToWhoMayHang(t *testing.T) {
	well := serve(t, "well", nil)
	stuck := serve(t, "stuck", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	w := newWorld(t, &Transport{Slow: 50 * time.Millisecond, RetryRatio: -1, Tries: 2})
	a, b := fake.Up("orders", "a", well.addr()), fake.Hanging(fake.Up("orders", "b", stuck.addr()))
	w.Set("orders", a, b)
	for range 20 {
		w.want("200 well", "GET", "http://orders/", "")
	}
	w.ask(b)
	for range 20 {
		w.want("200 well", "POST", "http://orders/", "not to be sent twice")
	}
	w.ask(b) // again: one that waits too long is forgotten
	begun := time.Now()
	w.want("200 well", "GET", "http://orders/", "")
	if took := time.Since(begun); took < 3*50*time.Millisecond || took > patience/2 {
		t.Errorf("the trial took %s, want three times Slow", took)
	}
	if n := len(stuck.got()); n != 1 {
		t.Errorf("%d requests went there, want the trial", n)
	}
}

// One that doesn't hang any more answers its trial, which may be a POST that can be sent again, and only that.
func TestU3ATrialIsAnsweredByWhoHangsNoMore(t *testing.T) {
	well, stuck := serve(t, "well", nil), serve(t, "stuck no more", nil)
	w := newWorld(t, &Transport{Slow: patience, RetryRatio: -1, Tries: 2})
	a, b := fake.Up("orders", "a", well.addr()), fake.Hanging(fake.Up("orders", "b", stuck.addr()))
	w.Set("orders", a, b)
	w.want("200 well", "GET", "http://orders/", "")
	w.ask(b)
	w.want("200 stuck no more", "POST", "http://orders/", "body", "Idempotency-Key", "1")
	w.want("200 well", "GET", "http://orders/", "")
}

// A Transport that doesn't send again has no request for a trial.
func TestATrialNeedsASecondTry(t *testing.T) {
	well, stuck := serve(t, "well", nil), serve(t, "stuck", nil)
	w := newWorld(t, &Transport{Tries: 1})
	a, b := fake.Up("orders", "a", well.addr()), fake.Hanging(fake.Up("orders", "b", stuck.addr()))
	w.Set("orders", a, b)
	w.want("200 well", "GET", "http://orders/", "")
	w.ask(b)
	for range 20 {
		w.want("200 well", "GET", "http://orders/", "")
	}
}

package console

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/replica"
)

func TestWhoSaysHowItPollsIsCounted(t *testing.T) {
	reg := scene()
	h := New(reg, Config{Version: "v0", Logger: quiet()})
	const asked = "/v1/services/ORDERS?caller=shop@h1&every=10s&cache=5s"
	w := ask(h, asked)
	tag := w.Header().Get("ETag")
	if w.Code != http.StatusOK || tag == "" || !strings.Contains(w.Body.String(), `"instances"`) {
		t.Fatalf("a poll is answered %d %q %s", w.Code, tag, w.Body)
	}
	if w = ask(h, asked, "If-None-Match", tag); w.Code != http.StatusNotModified {
		t.Errorf("with what it has: %d, want 304", w.Code)
	}
	first := replica.Poll{Caller: "shop@h1", Service: "orders", Every: 10 * time.Second, Cache: 5 * time.Second, Addr: netip.MustParseAddr("192.0.2.1")}
	second := first
	second.Run, second.Has = run, 1
	if diff := cmp.Diff([]replica.Poll{first, second}, reg.Polls(), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("polls that counted, 304 among them (-want +got):\n%s", diff)
	}
	for _, path := range []string{"/v1/services/orders", "/v1/services/orders?wait=1ms", "/v1/services/orders?caller=shop@h1&every=10s&after=1"} {
		ask(h, path)
	}
	if n := len(reg.Polls()); n != 2 {
		t.Errorf("%d polls: who doesn't say that he calls observes, and the rest of a list isn't the list", n)
	}
}

func TestAPollIsUnchangedOnlyIfItsCursorIsExact(t *testing.T) {
	reg := scene()
	h := New(reg, Config{Version: "v0", Logger: quiet()})
	const asked = "/v1/services/orders?caller=shop&every=10s"
	tag := ask(h, asked).Header().Get("ETag")
	reg.Inexact(true)
	w := ask(h, asked+"&wait=1s", "If-None-Match", tag)
	inexact := w.Header().Get("ETag")
	if w.Code != http.StatusOK || inexact == tag {
		t.Errorf("with changes that have no number yet: %d, ETag %q; want the whole, and a tag of its own", w.Code, inexact)
	}
	for range 2 {
		if w = ask(h, asked+"&wait=1s", "If-None-Match", inexact); w.Code != http.StatusOK {
			t.Errorf("with what has no number: %d, want the whole", w.Code)
		}
		reg.Inexact(false) // nor is it what the number says, later
	}
}

// Only the very tag that came with an answer shows that it has arrived.
func TestATagShowsAnAnswer(t *testing.T) {
	reg := scene()
	h := New(reg, Config{Version: "v0", Logger: quiet()})
	const asked = "/v1/services/orders?caller=shop&every=10s"
	w := ask(h, asked)
	tag := w.Header().Get("ETag")
	if got := w.Header().Get("Cache-Control"); got != "private, no-cache" {
		t.Errorf("Cache-Control is %q: a shared cache would show the tags of what it has kept", got)
	}
	if w = ask(h, asked, "If-None-Match", tag); w.Code != http.StatusNotModified || w.Header().Get("ETag") != tag {
		t.Errorf("unchanged is said with %d, ETag %q, want the tag %q that was shown, which goes on being right", w.Code, w.Header().Get("ETag"), tag)
	}
	observers := ask(h, "/v1/services/orders").Header().Get("ETag")
	for shown, want := range map[string]struct {
		code        int
		run, answer uint64
	}{
		tag:                            {304, run, 1},
		`"abc:7~9"`:                    {304, run, 9},
		`"abc:7:incomplete~9"`:         {200, run, 9},
		`"abc:6~9"`:                    {200, run, 9},
		`"abd:7~9"`:                    {200, run + 1, 9},
		`"abc:7+~9"`:                   {200, run, 9},
		"W/" + tag:                     {304, 0, 0},
		tag + `, "abc:6~2"`:            {304, 0, 0},
		`"abc:6~2",` + tag:             {304, 0, 0},
		observers:                      {304, 0, 0},
		"*":                            {304, 0, 0},
		`"abc:7~"`:                     {304, 0, 0},
		`"abc:7~-9"`:                   {304, 0, 0},
		`"abc:7~9`:                     {304, 0, 0},
		`"abc~9"`:                      {200, 0, 0},
		`"~9"`:                         {200, 0, 0},
		`"abc:7~99999999999999999999"`: {304, 0, 0},
	} {
		w := ask(h, asked, "If-None-Match", shown)
		polls := reg.Polls()
		if got := polls[len(polls)-1]; w.Code != want.code || got.Run != want.run || got.Has != want.answer {
			t.Errorf("If-None-Match: %s is answered %d, and shows answer %d of run %x; want %d, and %d of %x", shown, w.Code, got.Has, got.Run, want.code, want.answer, want.run)
		}
	}
	r := httptest.NewRequest(http.MethodGet, asked, nil)
	r.Host = "127.0.0.1:8761"
	r.Header["If-None-Match"] = []string{tag, tag}
	h.ServeHTTP(httptest.NewRecorder(), r)
	if polls := reg.Polls(); polls[len(polls)-1].Has != 0 {
		t.Error("two lines of tags show an answer")
	}
}

func TestTheNextPollIsSpread(t *testing.T) {
	h := New(scene(), Config{Version: "v0", Logger: quiet()})
	seen := map[string]bool{}
	for range 100 {
		text := ask(h, "/v1/services/orders?caller=shop&every=8s").Header().Get("Eider-Next-Poll")
		seen[text] = true
		if s, err := strconv.ParseFloat(text, 64); err != nil || s < 6 || s > 8 {
			t.Fatalf("the next poll is suggested in %q s, want 6 to 8", text)
		}
	}
	if len(seen) < 50 {
		t.Errorf("%d different suggestions of 100: a fleet would come all at once", len(seen))
	}
	if text := ask(h, "/v1/services/orders").Header().Get("Eider-Next-Poll"); text != "" {
		t.Errorf("an observer is told %q", text)
	}
}

func TestWhoIsTurnedAwayComesBackSpread(t *testing.T) {
	reg := scene()
	full := eider.Errorf(eider.Limited, "poll orders", "this node already has 25000 callers that poll, the most it takes")
	full.RetryAfter = 10 * time.Second
	reg.RefusePolls(full)
	h := New(reg, Config{Version: "v0", Logger: quiet()})
	seen := map[string]bool{}
	for range 100 {
		w := ask(h, "/v1/services/orders?caller=shop&every=8s")
		after := w.Header().Get("Retry-After")
		if s, err := strconv.Atoi(after); w.Code != http.StatusTooManyRequests || err != nil || s < 10 || s > 13 {
			t.Fatalf("%d with Retry-After %q, want 429 and 10 to 13", w.Code, after)
		}
		seen[after] = true
	}
	if len(seen) < 3 {
		t.Errorf("all are told to come back after %v s", seen)
	}
	if full.RetryAfter != 10*time.Second {
		t.Error("the registry's own error was changed")
	}
}

// Who waits for a change asks twice: while he waits he is a caller, and what he is answered is what he has.
func TestAWaitingPollCountsWhenItIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := scene()
		h := New(reg, Config{Version: "v0", Logger: quiet()})
		const asked = "/v1/services/orders?caller=shop&every=1s&wait=30s"
		tag := ask(h, asked).Header().Get("ETag")
		begun := time.Now()
		answered := make(chan *http.Response)
		go func() { answered <- ask(h, asked, "If-None-Match", tag).Result() }()
		synctest.Wait()
		if n := len(reg.Polls()); n != 2 {
			t.Fatalf("%d polls when it begins to wait, want 2", n)
		}
		<-time.After(5 * time.Second)
		v, _ := reg.View("orders")
		changed := *v
		changed.Cursor.Number++
		reg.SetView(&changed)
		reg.Tell(eider.Event{Kind: eider.EventStatus, Service: "orders"})
		if got := <-answered; got.StatusCode != http.StatusOK || got.Header.Get("ETag") == tag || time.Since(begun) > 6*time.Second {
			t.Errorf("answered %d, ETag %q after %s", got.StatusCode, got.Header.Get("ETag"), time.Since(begun))
		}
		polls := reg.Polls()
		if len(polls) != 3 || polls[2].Every != 31*time.Second || polls[2].Has != 1 {
			t.Errorf("the polls are %+v, want a third one when it was answered, of 31 s at most, which shows what it had before", polls)
		}
	})
}

// Who went away while he waited has fetched nothing, and isn't a caller for longer because of it.
func TestWhoWentAwayWhileHeWaitedHasFetchedNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := scene()
		h := New(reg, Config{Version: "v0", Logger: quiet()})
		const asked = "/v1/services/orders?caller=shop&every=1s&wait=30s"
		tag := ask(h, asked).Header().Get("ETag")
		ctx, leave := context.WithCancel(t.Context())
		r := httptest.NewRequest(http.MethodGet, asked, nil).WithContext(ctx)
		r.Host = "127.0.0.1:8761"
		r.Header.Set("If-None-Match", tag)
		done := make(chan struct{})
		go func() { h.ServeHTTP(httptest.NewRecorder(), r); close(done) }()
		synctest.Wait()
		v, _ := reg.View("orders")
		changed := *v
		changed.Cursor.Number++
		reg.SetView(&changed)
		leave() // just as there is something to tell
		<-done
		if n := len(reg.Polls()); n != 2 {
			t.Errorf("%d polls, want the first one and that which began to wait", n)
		}
	})
}

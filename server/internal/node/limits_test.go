package node

import (
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/replica"
)

// TestLimitsReachTheirRooms: each of these is one that a flag sets and a room keeps, which says the flag when it is reached.
func TestLimitsReachTheirRooms(t *testing.T) {
	r := start(t, Settings{Fresh: true, MaxHolds: 1, MaxCallers: 5, MaxStreams: 2, MaxHTTPStreams: 1})
	full := func(what string, err error) {
		t.Helper()
		if eider.KindOf(err) != eider.Limited {
			t.Errorf("%s: %v", what, err)
		}
	}
	at, err := r.replica.Attach(replica.Peer{Caller: "orders@1"})
	if err != nil {
		t.Fatal(err)
	}
	defer at.End(replica.Moving)
	holder := r.replica.(replica.Holder)
	for i := range 2 {
		key := eider.Key{Service: "orders", ID: strconv.Itoa(i)}
		rec := eider.Record{Key: key, Incarnation: eider.Incarnation{Nonce: uint64(i + 1)}, Attachment: 1, Status: eider.Up, Address: "127.0.0.1:" + strconv.Itoa(i+1)}
		if _, err := at.Register(rec, 0, [16]byte{}); err != nil {
			t.Fatal(err)
		}
		if _, err = holder.Hold(key, eider.Hold{}); i == 1 {
			full("a second hold of one", err)
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		_, err := r.replica.(replica.Poller).Poll(replica.Poll{Caller: "script@" + strconv.Itoa(i), Service: "orders", Every: time.Second})
		if i == 2 {
			full("a third poller where five may call", err)
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		w, err := r.replica.Watch(replica.Peer{Caller: "c", Observer: true})
		if i == 2 {
			full("a third watch where two streams may be open", err)
		} else if err != nil {
			t.Fatal(err)
		} else {
			defer w.End(replica.Moving)
		}
	}
	if got, want := r.eventStreams(t, 2), []int{http.StatusOK, http.StatusTooManyRequests}; !slices.Equal(got, want) {
		t.Errorf("two event streams of one: %d, want %d", got, want)
	}
}

// eventStreams opens as many, until the test ends, and returns how each was answered.
func (r running) eventStreams(t *testing.T, n int) (codes []int) {
	hc := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range n {
		ask, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.Addrs().HTTP.String()+"/v1/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		ask.Header.Set("Accept", "text/event-stream")
		res, err := hc.Do(ask)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
		codes = append(codes, res.StatusCode)
	}
	return codes
}

package drain

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eiderhq/eider"
)

func TestReportReadsWell(t *testing.T) {
	ms := time.Millisecond
	for _, c := range []struct {
		rep  Report
		want []string
	}{
		{Report{Service: "orders", ID: "10.0.0.7:8080", Took: 61 * ms, Pause: 14200 * time.Microsecond, Bound: 8 * time.Second, EndedBy: ByBarrier, Heard: true, Left: true,
			Waited: 20, ServedAfterLeave: 37, ServedBy: map[string]int{"checkout@b2": 20, "web@c3": 16, "": 1}}, []string{
			"orders/10.0.0.7:8080 left after 61ms: the pause took 14.2ms of at most 8s and was ended by: barrier",
			"  callers: 20 of 20 let go",
			"  served after the leave: 37 (checkout@b2 20, web@c3 16, without a name 1)",
		}},
		{Report{Service: "orders", Took: 28123 * ms, Pause: 8 * time.Second, Bound: 8 * time.Second, EndedBy: ByBound, Waited: 2, Open: 1,
			Members:    []eider.Member{{Caller: "web@c3", Kind: eider.Native, State: eider.NoAlternative, Stream: true, Cap: 8 * time.Second}},
			Overran:    []Request{{Method: "POST", Path: "/pay", Caller: "web@c3", Remote: "10.0.0.9:4711", Ran: 28 * time.Second, Before: true}},
			CutCount:   1,
			Cut:        []Request{{Method: "GET", Path: "/events", Remote: "10.0.0.9:4712", Ran: 13 * time.Second, Stream: true}},
			IdleClosed: 3, OverranCount: 1}, []string{
			"orders left after 28.12s: the pause took 8s of at most 8s and was ended by: bound",
			"  callers: 1 of 2 let go; web@c3 (native, no alternative, ≤ 8s)",
			"  the registry hadn't heard of the leave: callers that it keeps were told in band alone",
			"  cut: 1",
			"    GET /events from 10.0.0.9:4712, after 13s (a stream)",
			"  overran the in-flight deadline: 1",
			"    POST /pay of web@c3 from 10.0.0.9:4711, after more than 28s",
			"  connections closed: 0 silent, 3 idle, 0 at the end",
		}},
		{Report{Service: "orders", ID: "1", Took: 3412 * ms, Pause: 3400 * ms, Bound: 8 * time.Second, EndedBy: ByBarrier, Heard: true, Left: true, Waited: 2,
			Members: []eider.Member{{Caller: "callers from before", Kind: eider.FromBefore, State: eider.Capped, Cap: 3400 * ms, Settled: 3400 * ms},
				{Caller: "web@c3", Kind: eider.Native, State: eider.LetGo, Settled: 4 * ms}}}, []string{
			"orders/1 left after 3.41s: the pause took 3.4s of at most 8s and was ended by: barrier",
			"  callers: 1 of 2 let go; callers from before: covered by their cap after 3.4s",
		}},
		{Report{Service: "orders", EndedBy: ByBarrier, Waited: 40, Members: slices.Repeat([]eider.Member{{Caller: "x", State: eider.Capped}}, 32)}, []string{
			"orders left after 0s: the pause took 0s of at most 0s and was ended by: barrier",
			"  callers: at most 8 of 40 let go" + strings.Repeat("; x: covered by their cap after 0s", 32),
		}},
		{Report{Service: "orders", ID: "1", Took: 2 * ms, EndedBy: NeverListed}, []string{"orders/1 left after 2ms: no registry had listed it, so nobody was waited for"}},
		{Report{EndedBy: NoRegistry}, []string{"the server left after 0s: the pause took 0s of at most 0s and was ended by: no registry"}},
	} {
		if got, want := c.rep.String(), strings.Join(c.want, "\n"); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}

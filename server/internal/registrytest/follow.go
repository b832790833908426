package registrytest

import (
	"slices"
	"strings"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
)

// without returns what of a view a delta doesn't speak of.
func without(held *eider.View, delta *pb.View) (instances []eider.Instance, gone []eider.Gone) {
	spoken := make(map[string]bool)
	for _, in := range delta.GetInstances() {
		spoken[in.GetRecord().GetId()] = true
	}
	for _, g := range delta.GetGone() {
		spoken[g.GetId()] = true
	}
	for _, in := range held.Instances {
		if !spoken[in.ID] {
			instances = append(instances, in)
		}
	}
	for _, g := range held.Gone {
		if !spoken[g.ID] {
			gone = append(gone, g)
		}
	}
	return instances, gone
}

func sortView(v *eider.View) {
	slices.SortFunc(v.Instances, func(a, b eider.Instance) int { return strings.Compare(a.ID, b.ID) })
	slices.SortFunc(v.Gone, func(a, b eider.Gone) int { return strings.Compare(a.ID, b.ID) })
}

// same holds the client's view of a service to the registry's.
func (c *client) same(service string) {
	c.w.Helper()
	have, want := c.views[service], c.w.view(service)
	if have == nil {
		c.w.Fatalf("%s has no view of %s", c.name, service)
	}
	equal := have.Cursor == want.Cursor && have.Complete == want.Complete &&
		slices.EqualFunc(have.Instances, want.Instances, func(a, b eider.Instance) bool { return a.Equal(&b) })
	for _, g := range want.Gone {
		equal = equal && slices.Contains(have.Gone, g)
	}
	if !equal {
		c.w.Fatalf("%s holds\n%+v\nbut the registry says\n%+v", c.name, *have, *want)
	}
}

// sees holds the client's view of an instance to a status and suspicion.
func (c *client) sees(service, id string, status eider.Status, doubts eider.Suspicion) {
	c.w.Helper()
	v := c.views[service]
	if v == nil {
		c.w.Fatalf("%s has no view of %s", c.name, service)
	}
	if s, d := statusIn(v, id); s != status || d != doubts {
		c.w.Errorf("%s sees %s/%s %s (%s), want %s (%s)", c.name, service, id, s, d, status, doubts)
	}
}

// letGo acknowledges the view that the client holds, and that it has let go of the given processes.
func (c *client) letGo(service string, of ...*process) {
	c.Ack(service, c.views[service].Cursor, departures(of), nil)
}

// keeps acknowledges the view, but for want of an alternative lets nobody go.
func (c *client) keeps(service string, of ...*process) {
	c.Ack(service, c.views[service].Cursor, nil, departures(of))
}

func departures(of []*process) (out []eider.Departure) {
	for _, p := range of {
		out = append(out, eider.Departure{Key: p.rec.Key, Incarnation: eider.Incarnation{Nonce: p.rec.Incarnation.Nonce}})
	}
	return out
}

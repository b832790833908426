package console

import (
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/front/console/stage"
	"github.com/eiderhq/eider/server/internal/replica"
)

// counting is a registry that is asked for nothing in full.
type counting struct {
	replica.Reader
	t *testing.T
}

func (c counting) View(string) (*eider.View, bool) {
	c.t.Error("a view is made, for a count")
	return nil, false
}
func (c counting) Services() []eider.Summary { c.t.Error("all services are listed"); return nil }

// listless is one that is scraped: it doesn't list anybody either.
type listless struct{ counting }

func (c listless) Callers(string) []eider.Caller {
	c.t.Error("callers are listed, for a count")
	return nil
}

// TestCountsCopyNothing: a window needs no view, and a scrape walks over services and lists neither them nor callers.
func TestCountsCopyNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := scene()
		scrape(New(listless{counting{reg, t}}, Config{Logger: quiet()}))
		if code := ask(New(counting{reg, t}, Config{Logger: quiet()}), "/v1/window?service=orders").Code; code != 200 {
			t.Errorf("the window's status is %d", code)
		}
	})
}

// forgetful is a registry that has forgotten a service.
type forgetful struct {
	replica.Reader
	service string
}

func (f *forgetful) Glances() iter.Seq[replica.Glance] {
	return func(yield func(replica.Glance) bool) {
		for g := range f.Reader.Glances() {
			if g.Service != f.service && !yield(g) {
				return
			}
		}
	}
}

// TestALabelThatIsFreeIsGivenAgain to the first who has none, and nobody is counted twice or left out.
func TestALabelThatIsFreeIsGivenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := &forgetful{Reader: stage.New(eider.Node{})}
		for i := range 3*maxLabelled + 1 {
			name := fmt.Sprintf("s%03d", i)
			reg.Reader.(*stage.Registry).SetView(&eider.View{Service: name, Instances: []eider.Instance{instance(name, "1", eider.Up, 0)}})
		}
		h := New(reg, Config{Logger: quiet()})
		for _, c := range []struct {
			forgotten, labelled, without string
			other                        int
		}{{"", "s199", "s200", 2*maxLabelled + 1}, {"s000", "s200", "s201", 2 * maxLabelled}, {"s600", "s200", "s000", 2 * maxLabelled}} {
			reg.service = c.forgotten
			text := scrape(h)
			if !strings.Contains(text, fmt.Sprintf(`service=%q,state="up"} 1`, c.labelled)) || strings.Contains(text, fmt.Sprintf("service=%q", c.without)) ||
				!strings.Contains(text, fmt.Sprintf("eider_instances{service=%q,state=\"up\"} %d\n", otherLabel, c.other)) {
				t.Errorf("%q is forgotten: want a label for %s, none for %s, and %d without", c.forgotten, c.labelled, c.without, c.other)
			}
		}
	})
}

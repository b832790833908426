package ledger

import (
	"fmt"
	"strings"
	"testing"

	"github.com/eiderhq/eider/window"
)

// The preset "eider" can't take these numbers from here, since package window imports nothing; it has them all the same.
func TestThePresetHasTheDefaults(t *testing.T) {
	p, err := window.Lookup("eider")
	if err != nil {
		t.Fatal(err)
	}
	c := Config{}.withDefaults()
	want := map[string]string{"lease": c.Lease.String(), "beat": c.Beat.String(), "cap": c.Cap.String()}
	for _, s := range p.Settings {
		if w, ok := want[s.Name]; ok && s.Default.String() != w {
			t.Errorf("the preset's %s is %s, the node's %s", s.Name, s.Default, w)
		}
		delete(want, s.Name)
	}
	if len(want) > 0 {
		t.Errorf("the preset lacks %v", want)
	}
	refused, err := p.Derive(map[string]string{"silent": "off"}, window.Fleet{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := refused.Crash.Terms[0].Max, dialTimes[len(dialTimes)-1]; got != want {
		t.Errorf("the preset's last dial is after %s, the node's after %s", got, want)
	}
	within, beyond := window.Fleet{Instances: 100, Lost: tolerated}, window.Fleet{Instances: 100, Lost: tolerated + 1}
	if f, err := p.Derive(nil, within); err != nil || f.Crash.Void != "" {
		t.Errorf("preservation tolerates %d of 100: %q, %v", tolerated, f.Crash.Void, err)
	}
	last := fmt.Sprint((patience + tolerated + 1) * c.Lease)
	if f, err := p.Derive(nil, beyond); err != nil || !strings.Contains(f.Crash.Void, last+" for the last") {
		t.Errorf("the last of %d is let go within %s: %q, %v", tolerated+1, last, f.Crash.Void, err)
	}
}

package window

import (
	"fmt"
	"time"
)

// eider is Eider itself, with callers that hold a stream.
func eider() Preset {
	return Preset{
		Name: "eider", Title: "Eider", pushed: true,
		About: "Callers acknowledge: a planned window ends when the last one has let go, milliseconds after the leave, and no later than the cap, which is for callers that are cut off. " +
			"How often that is so is an assumption (cut-off). A crash whose port refuses is over in milliseconds (silent=off); one that leaves nothing but silence costs the lease, " +
			"while callers prefer others from 5 s on at the latest.",
		Settings: []Setting{
			{Name: "cap", What: "a drain waits no longer for one caller", Default: lasts(8 * time.Second), least: int64(100 * time.Millisecond), Source: "docs/drain.md",
				cost: "a caller that is cut off for longer still picks the instance, until it is told in band"},
			{Name: "cut-off", What: "of 100 leaves, so many find a caller that is cut off", Default: count(1), most: 100, given: true, Source: "an assumption"},
			{Name: "let-go", What: "the callers that are there have let go within", Default: lasts(103 * time.Millisecond), given: true,
				Source: "docs/benchmarks.md, 1,000 callers on two busy cores"},
			{Name: "poller", What: "interval and cache of the slowest caller that polls; 0: all hold a stream", Default: lasts(0), given: true, Source: "docs/callers.md"},
			{Name: "beat", What: "a process beats so often, up to 25 % earlier", Default: lasts(2 * time.Second), least: int64(50 * time.Millisecond), Source: "docs/evidence.md"},
			{Name: "lease", What: "an instance that is silent for so long lapses", Default: lasts(20 * time.Second), least: int64(time.Second), Source: "docs/evidence.md"},
			{Name: "silent", What: "the crash leaves nothing but silence: a lost host, a parted network", Default: turned(true), given: true, Source: "docs/evidence.md"},
		},
		derive: deriveEider,
	}
}

func deriveEider(c *chosen) (Forecast, error) {
	lease, beat := c.lasts("lease"), c.lasts("beat")
	longest, soon := c.lasts("cap"), min(c.lasts("let-go"), c.lasts("cap"))
	late := float64(c.count("cut-off"))
	letGo := Histogram("callers let go", []Bucket{{To: soon, Weight: 100 - late}, {From: longest, To: longest, Weight: late}}, c.source("cap", "cut-off", "let-go"))
	letGo.Max = longest // also if none is assumed to be cut off: a bound isn't a likelihood
	planned := sum(letGo)
	if poller := c.lasts("poller"); poller > 0 {
		// Its word, and a second for an answer on its way. The slowest caller ends the pause, not all one after the other.
		planned = Longest(planned, sum(c.upTo("poller", "poller"), Uniform("poller's answer", 0, time.Second, "docs/callers.md")))
	}
	push := c.upTo("push", "let-go")
	crash := sum(c.silence(lease, beat, "lease", "beat"), push)
	if !c.on("silent") {
		crash = sum(Uniform("dial refused", 0, 300*time.Millisecond, "0, 20, 100, 300ms after its stream ended: docs/evidence.md"), push)
	}
	f := Forecast{
		Planned: Window{Terms: planned, VoidWhen: []string{"callers that don't say who they are: their pause is what the instance has set (Unknown)"}},
		Crash:   Window{Terms: crash, VoidWhen: []string{"the node is away: callers keep their lists, and their breakers"}},
		Load:    c.load(c.lasts("poller"), beat, lease-beat),
		Told:    true,
	}
	if c.on("silent") {
		tolerated := max(1, c.fleet.Instances*15/100)
		f.Crash.VoidWhen = append([]string{fmt.Sprintf("preservation: more than %d of %d instances silent at once", tolerated, c.fleet.Instances)}, f.Crash.VoidWhen...)
		f.Crash.bears = tolerated
		if c.fleet.Lost > tolerated {
			last := Sum{{Max: times(10, lease)}, {Max: times(c.fleet.Lost, lease)}}.Worst()
			f.Crash.Void = fmt.Sprintf("preservation: %d of %d instances silent at once look like a parted network; it ends after ten leases, one instance a lease: %s for the last. "+
				"Meanwhile they are suspect, so that callers prefer others, and %s", c.fleet.Lost, c.fleet.Instances, last, nevertheless)
		}
	}
	return f, c.outlasts(lease, "lease", beat, c.called("beat"))
}

package bench

import (
	"fmt"
	"slices"
	"time"
)

// Gate is one promise: Eider's figure over a peer's, both taken in this run.
type Gate struct {
	Name    string
	Most    float64 // the ratio may be this much
	Measure func() (Ratio, error)
}

// Ratio is what a gate measured.
type Ratio struct{ Eider, Peer Figure }

// Ratio is Eider's figure over the peer's.
func (r Ratio) Ratio() float64 { return r.Eider.Value / r.Peer.Value }

// Figure is a median with its unit.
type Figure struct {
	Value float64
	Unit  string // ns, bytes, or allocations
}

// String writes the figure for people.
func (f Figure) String() string {
	switch f.Unit {
	case "ns":
		return time.Duration(f.Value).Round(time.Microsecond / 10).String()
	case "bytes":
		return fmt.Sprintf("%.1f KiB", f.Value/1024)
	}
	return fmt.Sprintf("%.1f %s", f.Value, f.Unit)
}

// rest lets what a round has left behind (acknowledgements, collections) end before the next begins.
const rest = 200 * time.Millisecond

// turns times a and b in turns and returns the medians of the counted rounds.
func turns(rounds int, a, b func() (time.Duration, error)) (Ratio, error) {
	var as, bs []time.Duration
	for round := range rounds + 3 {
		<-time.After(rest)
		ta, err := a()
		if err != nil {
			return Ratio{}, err
		}
		<-time.After(rest)
		tb, err := b()
		if err != nil {
			return Ratio{}, err
		}
		if round >= 3 { // the first are warm-up
			as, bs = append(as, ta), append(bs, tb)
		}
	}
	return Ratio{median(as), median(bs)}, nil
}

func median(ds []time.Duration) Figure {
	slices.Sort(ds)
	return Figure{float64(ds[len(ds)/2]), "ns"}
}

func timed(do func() error) func() (time.Duration, error) {
	return func() (time.Duration, error) {
		start := time.Now()
		err := do()
		return time.Since(start), err
	}
}

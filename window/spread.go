package window

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"
)

// What a Spread may cost, whatever it is asked: 8 MiB, and additions for about a tenth of a second. What would
// take more is spread over coarser bins.
const (
	defaultBin = 10 * time.Millisecond
	mostPoints = 1 << 20
	mostWork   = 1 << 24
)

// Spread is how the delays of a sum lie between its best and its worst case.
//
// It is a convolution: each term is laid onto points that are a cell apart, a delay between two points onto both
// in proportion, which keeps the mean, and the points are added up. A term is off by less than a cell so and n
// terms by less than n cells; a cell is chosen so that this is at most a bin. Fixed parts are not laid out but
// added, and cost no exactness.
type Spread struct {
	best, worst, mean time.Duration
	bin, cell         time.Duration
	upTo              []float64 // the chance of a delay of at most best + i·cell
}

// Spread convolves the terms so that a quantile is off by less than bin; 0 means 10 ms. Time and memory are
// bounded, whatever the terms are: where they don't suffice the bin is longer, see [Spread.Bin].
func (s Sum) Spread(bin time.Duration) Spread {
	if bin <= 0 {
		bin = defaultBin
	}
	spread := Spread{worst: s.Worst(), mean: s.Mean()}
	var moving []Term
	for _, t := range s {
		least, _ := t.span()
		if spread.best > math.MaxInt64-least {
			spread.best = math.MaxInt64
		} else {
			spread.best += least
		}
		if t.width() > 0 {
			moving = append(moving, t)
		}
	}
	if len(moving) == 0 || spread.best == spread.worst {
		return spread
	}
	// A term costs its buckets times the width of the sum so far: the order in which all cost the least.
	slices.SortStableFunc(moving, func(a, b Term) int {
		return cmp.Compare(float64(a.width())*b.buckets(), float64(b.width())*a.buckets())
	})
	spread.cell = spread.fitting(moving, fine(bin, len(moving)))
	spread.bin = spread.worst - spread.best
	if n := time.Duration(len(moving)); spread.cell <= spread.bin/n {
		spread.bin = n * spread.cell
	}
	spread.upTo = spread.convolve(moving)
	return spread
}

// fine returns the longest of 1, 2, 5, 10, 20, … parts of a bin that n terms can be off by: such a cell keeps
// round numbers round.
func fine(bin time.Duration, n int) time.Duration {
	for ten := 1; ; ten *= 10 {
		for _, parts := range []int{ten, 2 * ten, 5 * ten} {
			if cell := bin / time.Duration(parts); parts >= n || cell <= 1 {
				return max(cell, 1)
			}
		}
	}
}

// fitting makes the cell coarser until the convolution stays within its budget.
func (s *Spread) fitting(moving []Term, cell time.Duration) time.Duration {
	wide := s.worst - s.best
	cell = max(cell, wide/(mostPoints-2)+1)
	work, width := 0.0, 0.0 // in points, were a cell a nanosecond
	for _, t := range moving {
		width = min(width+float64(t.width()), float64(wide))
		work += width * t.buckets()
	}
	return max(cell, duration(work/mostWork))
}

// points is how many points the whole sum is laid onto: from the best case to the worst and, if it isn't on a
// point, to the one behind it.
func (s *Spread) points() int {
	return int((s.worst-s.best-1)/s.cell) + 2
}

// convolve adds the terms up and returns the chance of a sum up to each point.
func (s *Spread) convolve(moving []Term) []float64 {
	sum, next, upTo := make([]float64, 1, s.points()), make([]float64, s.points()), make([]float64, s.points()+1)
	sum[0] = 1
	for _, t := range moving {
		for i, p := range sum {
			upTo[i+1] = upTo[i] + p
		}
		out := next[:min(len(sum)+int(math.Ceil(s.cells(t.width()))), cap(next))]
		clear(out)
		least, _ := t.span()
		for _, b := range t.parts() {
			k := kernel{from: s.cells(b.From - least), to: s.cells(b.To - least), weight: b.Weight}
			k.spread(out, sum, upTo[:len(sum)+1])
		}
		sum, next = out, sum[:cap(sum)]
	}
	// What the cells have rounded beyond the worst case is put onto the last point.
	total := 0.0
	for i, p := range sum {
		total += p
		sum[i] = min(total, 1)
	}
	sum[len(sum)-1] = 1
	return sum
}

// cells is the place of a delay above the best case. A single term can be far wider than a sum that saturates.
func (s *Spread) cells(d time.Duration) float64 {
	return min(float64(d)/float64(s.cell), math.MaxInt/4)
}

// kernel is a bucket in cells: a constant density from from to to, laid onto points.
type kernel struct{ from, to, weight float64 }

// spread adds the sum, moved by the kernel, to out; upTo are the partial sums of sum. Points inside of the
// bucket have the same chance, so that partial sums do for all of them; those at its ends are moved one by one.
func (k kernel) spread(out, sum, upTo []float64) {
	first, last := int(math.Floor(k.from)), int(math.Ceil(k.to))
	inFrom, inTo := int(math.Ceil(k.from))+1, int(math.Floor(k.to))-1
	if inFrom > inTo {
		inFrom, inTo = last+1, last
	}
	for at := first; at < inFrom; at++ {
		shift(out, sum, at, k.at(at))
	}
	for at := max(inTo+1, inFrom); at <= last; at++ {
		shift(out, sum, at, k.at(at))
	}
	if inFrom > inTo {
		return
	}
	each := k.weight / (k.to - k.from)
	for i := inFrom; i < min(len(out), inTo+len(sum)); i++ {
		out[i] += each * max(upTo[min(i-inFrom+1, len(sum))]-upTo[max(i-inTo, 0)], 0)
	}
}

// at is the chance of a point: the density of the bucket around it, weighted by the nearness to the point.
func (k kernel) at(point int) float64 {
	if k.to-k.from < 1e-6 { // a point, or nearly
		return k.weight * max(1-math.Abs(k.from-float64(point)), 0)
	}
	below := func(x float64) float64 { // the part of the hat around point that is below x
		switch d := x - float64(point); {
		case d <= -1:
			return 0
		case d <= 0:
			return (d + 1) * (d + 1) / 2
		case d < 1:
			return 1 - (1-d)*(1-d)/2
		}
		return 1
	}
	return k.weight * (below(k.to) - below(k.from)) / (k.to - k.from)
}

func shift(out, sum []float64, by int, weight float64) {
	if weight <= 0 {
		return
	}
	for i := range min(len(sum), max(len(out)-by, 0)) {
		out[i+by] += weight * sum[i]
	}
}

// Best and Worst are those of the sum.
func (s Spread) Best() time.Duration  { return s.best }
func (s Spread) Worst() time.Duration { return s.worst }

// Mean is exact: it is the sum of the terms' means.
func (s Spread) Mean() time.Duration { return s.mean }

// Bin is what a quantile may be off by: at most what was asked for, unless that would have cost too much; 0 if
// all terms are fixed.
func (s Spread) Bin() time.Duration { return s.bin }

// Quantile is the delay that a share p of all departures doesn't exceed: 0.99 of them are over after
// Quantile(0.99). It is off by less than a Bin and never beyond the best or the worst case; the latter is what
// a p of 1 and one that is no number get.
func (s Spread) Quantile(p float64) time.Duration {
	if !(p < 1) {
		return s.worst
	}
	if p <= 0 || len(s.upTo) == 0 {
		return s.best
	}
	// Additions round: a chance of 0.99 that is short by that is 0.99.
	i := sort.SearchFloat64s(s.upTo, p-1e-12)
	if time.Duration(i) > (s.worst-s.best)/s.cell {
		return s.worst
	}
	return s.best + time.Duration(i)*s.cell
}

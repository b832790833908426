package bench

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Row is one line of a table: what was measured, and what came out.
type Row struct{ What, Figure string }

// Table is what is measured in one go.
type Table struct {
	Name    string
	Measure func() ([]Row, error)
}

// FleetTables are all of them.
func FleetTables() []Table {
	return []Table{
		{"gobreaker's distributed breaker, over Redis", Sony},
		{"the same calls by a fleet's breaker, over Redis", fleetFifty},
		{"what Redis has to do for fifty callers", fleetLoad},
		{"how soon all have it", fleetSoon},
		{"what one caller's part holds", fleetWeight},
	}
}

// fleetCallers is how many callers share a breaker.
const fleetCallers = 50

// crowd is what became of many callers' calls.
type crowd struct {
	made, failed, calls int
	took                []time.Duration
}

// crowded has callers call, each one call after the other and at most each so often, and every call takes so long.
func crowded(callers int, lasts, every, takes time.Duration, call func(caller int, work func()) error) (c crowd) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	end := time.Now().Add(lasts)
	for i := range callers {
		wg.Go(func() {
			var took []time.Duration
			made, failed := 0, 0
			for next := time.Now(); time.Now().Before(end); {
				if every > 0 {
					<-time.After(time.Until(next))
					next = next.Add(every)
				}
				start := time.Now()
				err := call(i, func() {
					made++
					if takes > 0 {
						<-time.After(takes)
					}
				})
				took = append(took, time.Since(start))
				if err != nil {
					failed++
				}
			}
			mu.Lock()
			defer mu.Unlock()
			c.made, c.failed, c.calls, c.took = c.made+made, c.failed+failed, c.calls+len(took), append(c.took, took...)
		})
	}
	wg.Wait()
	slices.Sort(c.took)
	return c
}

func (c crowd) rows(name string, lasts time.Duration) []Row {
	return []Row{
		{name + ": calls/s of all together", fmt.Sprintf("%.0f", float64(c.made)/lasts.Seconds())},
		{name + ": a call takes: median, longest", fmt.Sprintf("%s, %s", nanoseconds(c.took[len(c.took)/2]), nanoseconds(c.took[len(c.took)-1]))},
		{name + ": ended with an error", fmt.Sprintf("%d of %d", c.failed, c.calls)},
	}
}

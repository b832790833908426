package bench

import (
	"fmt"
	"time"
)

// Size says how much is measured. More takes longer and says more.
type Size struct {
	Callers int // of the fan-out gates
	Rounds  int // counted rounds a gate
}

// Gate is one promise: Eider's figure beside a peer's, both taken in turns in this run.
type Gate struct {
	Name    string
	Most    float64 // the ratio may be this much
	Measure func(Size) (Result, error)
}

// Gates are all of them. What they hold Eider to stands in docs/benchmarks.md.
func Gates() []Gate {
	return append([]Gate{
		{"fan-out: a change until the last caller picks by it / raw gRPC", 1.2, fanOut},
		{"fan-out: the same / etcd until the last watcher has it", 1, besideEtcd},
		{"fan-out: the same with every acknowledgement / raw gRPC without", 1.7, acknowledged},
		{"barrier: a leave until every idle caller has let go / fan-out", 2, barrier},
		{"crash: kill -9 until nobody picks it, less the wait for the dial / fan-out", 3, crash},
		{"memory: the server's, an idle caller / raw gRPC's", 1.2, memory},
		{"http: a call by eiderhttp / by http.Transport", 1.15, httpTime},
		{"http: a call by eiderhttp with breaker and bulkhead / without", 1.03, httpGuarded},
		{"http: allocations a call, on top of http.Transport's / 12", 1, httpAllocations},
		{"grpc: a call by eidergrpc, both ends / by plain grpc-go", 1.1, grpcTime},
		{"grpc: allocations a pick, over round_robin's none / 1", 0, grpcPick},
		{"disk: the node's processor time of a registration that is kept / of one that isn't", 1.1, registrations},
		{"run: bytes of eider-run, static / 16 MB", 1, runBytes},
		{"run: resident memory of eider-run while it supervises / 20 MiB", 1, runResident},
		{"run: until a program's first word, by eider-run / 1.2 x by itself + 30 ms", 1, runStart},
		{"ledger: allocations a renewal, at 100,000 instances / 1", 0, renewAllocations},
		{"ledger: bytes an instance with three pairs of metadata / 1.5 KiB", 1, instanceBytes},
		{"ledger: a renewal at 100,000 instances / at 1,000", flat, renewFlat},
		{"ledger: a record applied at 100,000 instances / at 1,000", flat, applyFlat},
	}, breakerGates()...)
}

// Result is what a gate measured.
type Result struct {
	Eider, Peer Figure
	CPU         float64 // Eider's processor time over the peer's, both ends together, with all that a round leaves behind; 0: not measured
	Note        string  // what else was seen
}

// Ratio is Eider's figure over the peer's.
func (r Result) Ratio() float64 { return r.Eider.Value / r.Peer.Value }

// Figure is a number with its unit.
type Figure struct {
	Value float64
	Unit  string // ns, bytes, or a word
}

func nanoseconds(d time.Duration) Figure { return Figure{float64(d), "ns"} }

// String writes the figure for people.
func (f Figure) String() string {
	switch f.Unit {
	case "ns":
		d := time.Duration(f.Value)
		for _, unit := range []time.Duration{time.Millisecond, time.Microsecond} {
			if d >= 10*unit {
				return d.Round(unit / 10).String()
			}
		}
		return d.String()
	case "bytes":
		if f.Value < 4096 {
			return fmt.Sprintf("%.0f bytes", f.Value)
		}
		return fmt.Sprintf("%.1f KiB", f.Value/1024)
	}
	return fmt.Sprintf("%.1f %s", f.Value, f.Unit)
}

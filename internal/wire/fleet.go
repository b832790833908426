package wire

import (
	"math"
	"time"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
)

// FromSight writes what there is of a fleet breaker's key; its bytes are shared, not copied.
func FromSight(s *eider.FleetSight) *pb.Sight {
	m := &pb.Sight{Version: s.Version, Record: s.Record, AgeUs: fromAge(s.Age)}
	if len(s.Counts) > 0 {
		m.Told = make([]*pb.Told, len(s.Counts))
	}
	for i, c := range s.Counts {
		m.Told[i] = &pb.Told{Caller: c.Caller, From: c.From, AgeUs: fromAge(c.Age), Count: c.Count}
	}
	return m
}

// ToSight reads what there is of a key; a missing one is that of a key that has nothing.
func ToSight(m *pb.Sight) eider.FleetSight {
	s := eider.FleetSight{Version: m.GetVersion()}
	if s.Version != 0 {
		s.Record, s.Age = m.GetRecord(), toAge(m.GetAgeUs())
	}
	for _, c := range m.GetTold() {
		s.Counts = append(s.Counts, eider.FleetCount{Caller: c.GetCaller(), From: c.GetFrom(), Age: toAge(c.GetAgeUs()), Count: c.GetCount()})
	}
	return s
}

// An age is rounded down: it may be less than the truth, never more.
func fromAge(d time.Duration) uint64 { return uint64(max(0, d) / time.Microsecond) }

func toAge(us uint64) time.Duration {
	return time.Duration(min(us, math.MaxInt64/uint64(time.Microsecond))) * time.Microsecond
}

// Package wire turns the native protocol's messages into the house's words and back.
//
// Reading is strict where a stranger could do harm (an unknown status, a nonce of 0) and total: no
// message makes it panic.
package wire

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
)

// observed masks the suspicions that travel: a caller's own never do.
const observed = eider.StreamEnded | eider.BeatsMissed | eider.Wedged | eider.Orphaned | eider.Restored

// FromIncarnation writes an incarnation.
func FromIncarnation(in eider.Incarnation) *pb.Incarnation {
	return &pb.Incarnation{Number: in.Number, Nonce: in.Nonce}
}

// ToIncarnation reads an incarnation; a missing one or a nonce of 0 is an error.
func ToIncarnation(m *pb.Incarnation) (eider.Incarnation, error) {
	if m.GetNonce() == 0 {
		return eider.Incarnation{}, errors.New("incarnation: the nonce is missing; draw a random one, never 0")
	}
	return eider.Incarnation{Number: m.GetNumber(), Nonce: m.GetNonce()}, nil
}

// FromCursor writes a cursor, nil for none.
func FromCursor(c eider.Cursor) *pb.Cursor {
	if c == (eider.Cursor{}) {
		return nil
	}
	return &pb.Cursor{Run: c.Run, Number: c.Number}
}

// ToCursor reads a cursor; a missing one is the zero cursor.
func ToCursor(m *pb.Cursor) eider.Cursor {
	return eider.Cursor{Run: m.GetRun(), Number: m.GetNumber()}
}

// FromStatus writes a status.
func FromStatus(s eider.Status) pb.Status { return pb.Status(s) }

// ToStatus reads a status; one that isn't known is an error.
func ToStatus(m pb.Status) (eider.Status, error) {
	if m <= pb.Status_STATUS_UNSPECIFIED || m > pb.Status_STATUS_LAPSED {
		return eider.StatusUnknown, fmt.Errorf("status: number %d is unknown here", int32(m))
	}
	return eider.Status(m), nil
}

// FromRecord writes a record; its maps are shared, not copied.
func FromRecord(r *eider.Record) *pb.Record {
	m := &pb.Record{
		Service: r.Service, Id: r.ID, Incarnation: FromIncarnation(r.Incarnation), Attachment: r.Attachment,
		Version: r.Version, Status: FromStatus(r.Status), Address: r.Address, Zone: r.Zone, Metadata: r.Metadata,
	}
	if len(r.Ports) > 0 {
		m.Ports = make(map[string]uint32, len(r.Ports))
		for name, port := range r.Ports {
			m.Ports[name] = uint32(port)
		}
	}
	return m
}

// ToRecord reads a record of a service; "" means the one that the message names. Bounds aren't its
// concern: see [eider.Record.Check].
func ToRecord(m *pb.Record, service string) (eider.Record, error) {
	if m == nil {
		return eider.Record{}, errors.New("record: missing")
	}
	if service == "" {
		service = m.GetService()
	}
	in, errIn := ToIncarnation(m.GetIncarnation())
	status, errStatus := ToStatus(m.GetStatus())
	r := eider.Record{
		Key: eider.Key{Service: service, ID: m.GetId()}, Incarnation: in, Attachment: m.GetAttachment(),
		Version: m.GetVersion(), Status: status, Address: m.GetAddress(), Zone: m.GetZone(), Metadata: m.GetMetadata(),
	}
	var errPort error
	if ports := m.GetPorts(); len(ports) > 0 {
		r.Ports = make(map[string]uint16, len(ports))
		for name, port := range ports {
			if port > math.MaxUint16 {
				errPort = fmt.Errorf("ports: %.40q has number %d; a port is 1 to 65535", name, port)
				continue
			}
			r.Ports[name] = uint16(port)
		}
	}
	if err := errors.Join(errIn, errStatus, errPort); err != nil {
		return eider.Record{}, err
	}
	return r, nil
}

// FromInstance writes an instance inside a view: without the service, which the view names.
func FromInstance(in *eider.Instance) *pb.Instance {
	r := FromRecord(&in.Record)
	r.Service = ""
	return &pb.Instance{Record: r, Suspicion: uint32(in.Suspicion & observed), Hold: FromHold(in.Hold)}
}

// ToInstance reads an instance of a view of the service.
func ToInstance(m *pb.Instance, service string) (eider.Instance, error) {
	r, err := ToRecord(m.GetRecord(), service)
	hold, errHold := ToHold(m.GetHold())
	if err := errors.Join(err, errHold); err != nil {
		return eider.Instance{}, err
	}
	return eider.Instance{Record: r, Suspicion: eider.Suspicion(m.GetSuspicion()) & observed, Hold: hold}, nil
}

// FromGone writes how an instance ended.
func FromGone(g *eider.Gone) *pb.Gone {
	return &pb.Gone{Id: g.ID, Incarnation: FromIncarnation(g.Incarnation), Attachment: g.Attachment,
		Version: g.Version, Status: FromStatus(g.Status)}
}

// ToGone reads how an instance ended.
func ToGone(m *pb.Gone) (eider.Gone, error) {
	in, errIn := ToIncarnation(m.GetIncarnation())
	status, errStatus := ToStatus(m.GetStatus())
	if errStatus == nil && !status.Gone() {
		errStatus = fmt.Errorf("gone: %s is no way to end", status)
	}
	return eider.Gone{ID: m.GetId(), Incarnation: in, Attachment: m.GetAttachment(),
		Version: m.GetVersion(), Status: status}, errors.Join(errIn, errStatus)
}

// FromDepartures names departures of one service.
func FromDepartures(deps []eider.Departure) []*pb.Departure {
	var out []*pb.Departure
	for _, d := range deps {
		out = append(out, &pb.Departure{Id: d.ID, Nonce: d.Incarnation.Nonce, Hold: d.Hold})
	}
	return out
}

// ToDepartures reads departures of one service; those without a nonce are left out, since they name nothing.
func ToDepartures(ms []*pb.Departure, service string) []eider.Departure {
	var out []eider.Departure
	for _, m := range ms {
		if m.GetNonce() != 0 {
			out = append(out, eider.Departure{Key: eider.Key{Service: service, ID: m.GetId()},
				Incarnation: eider.Incarnation{Nonce: m.GetNonce()}, Hold: m.GetHold()})
		}
	}
	return out
}

// FromError writes an error for the other side.
func FromError(err error) *pb.Error {
	var after time.Duration
	if e, ok := errors.AsType[*eider.Error](err); ok {
		after = e.RetryAfter
	}
	kind := pb.Kind_KIND_INTERNAL
	switch k := eider.KindOf(err); {
	case k <= eider.Unavailable:
		kind = pb.Kind(k)
	case k == eider.Denied:
		kind = pb.Kind_KIND_DENIED
	}
	return &pb.Error{Kind: kind, Message: err.Error(), RetryAfterMs: FromDuration(after)}
}

// ToError reads an error from the other side; nil for none.
func ToError(op string, m *pb.Error) error {
	if m == nil {
		return nil
	}
	kind := eider.Internal
	switch k := m.GetKind(); {
	case k >= 0 && k <= pb.Kind_KIND_UNAVAILABLE:
		kind = eider.Kind(k)
	case k == pb.Kind_KIND_DENIED:
		kind = eider.Denied
	}
	return &eider.Error{Op: op, Kind: kind, Err: errors.New(m.GetMessage()), RetryAfter: ToDuration(m.GetRetryAfterMs())}
}

// FromDuration writes whole milliseconds, rounded up, and caps what doesn't fit.
func FromDuration(d time.Duration) uint32 {
	switch {
	case d <= 0:
		return 0
	case d >= math.MaxUint32*time.Millisecond:
		return math.MaxUint32
	}
	return uint32((d + time.Millisecond - 1) / time.Millisecond)
}

// ToDuration reads milliseconds.
func ToDuration(ms uint32) time.Duration { return time.Duration(ms) * time.Millisecond }

// FromMember writes a member of a drain.
func FromMember(m *eider.Member) *pb.Member {
	return &pb.Member{Caller: m.Caller, Kind: string(m.Kind), State: string(m.State), Stream: m.Stream,
		CapMs: FromDuration(m.Cap), SettledMs: FromDuration(m.Settled),
		EveryMs: FromDuration(m.Every), CacheMs: FromDuration(m.Cache)}
}

// ToMember reads a member of a drain.
func ToMember(m *pb.Member) eider.Member {
	return eider.Member{Caller: m.GetCaller(), Kind: eider.CallerKind(m.GetKind()), State: eider.MemberState(m.GetState()),
		Stream: m.GetStream(), Cap: ToDuration(m.GetCapMs()), Settled: ToDuration(m.GetSettledMs()),
		Every: ToDuration(m.GetEveryMs()), Cache: ToDuration(m.GetCacheMs())}
}

// FromWork writes what an instance has done.
func FromWork(k eider.Key, w eider.Work) *pb.Work {
	return &pb.Work{Service: k.Service, Id: k.ID, Arrived: w.Arrived, Completed: w.Completed, Ended: w.Ended,
		SlowestMs: FromDuration(w.Slowest), Unknown: w.Unknown}
}

// ToWork reads what an instance says that it has done. Its counts are only as good as its word.
func ToWork(m *pb.Work) (eider.Key, eider.Work) {
	return eider.Key{Service: m.GetService(), ID: m.GetId()}, eider.Work{Arrived: m.GetArrived(), Completed: m.GetCompleted(),
		Ended: m.GetEnded(), Slowest: ToDuration(m.GetSlowestMs()), Unknown: m.GetUnknown()}
}

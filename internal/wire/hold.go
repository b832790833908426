package wire

import (
	"errors"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
)

// maxTime is the first millisecond, of Unix time, that no page can write: that of the year 10000.
const maxTime = 253_402_300_800_000

// FromHold writes a hold, nil for none.
func FromHold(h *eider.Hold) *pb.Hold {
	if h == nil {
		return nil
	}
	return &pb.Hold{Count: h.Count, Reason: h.Reason, By: h.By, SinceMs: fromTime(h.Since), UntilMs: fromTime(h.Until)}
}

// ToHold reads a hold; a missing one is none. A count of 0 is an error: letting go for it would be letting
// go for a leave.
func ToHold(m *pb.Hold) (*eider.Hold, error) {
	if m == nil {
		return nil, nil
	}
	if m.GetCount() == 0 {
		return nil, errors.New("hold: its count is missing; they count from 1")
	}
	return &eider.Hold{Count: m.GetCount(), Reason: m.GetReason(), By: m.GetBy(), Since: toTime(m.GetSinceMs()), Until: toTime(m.GetUntilMs())}, nil
}

// fromTime writes Unix milliseconds, 0 for no time.
func fromTime(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// toTime reads Unix milliseconds. What no clock of ours says (before 1970, after 9999) is no time.
func toTime(ms int64) time.Time {
	if ms <= 0 || ms >= maxTime {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// parseHold reads an encoded Hold, and shares the one that was known before if it says the same. One that is
// protobuf and still can't be read is errUnread.
func parseHold(b []byte, before *eider.Hold) (*eider.Hold, error) {
	var h, old eider.Hold
	if before != nil {
		old = *before
	}
	var err error
	f := fields{rest: b}
	for f.next() && err == nil {
		switch {
		case f.is(1, protowire.VarintType):
			h.Count = f.number
		case f.is(2, protowire.BytesType):
			h.Reason, err = text(f.bytes, old.Reason)
		case f.is(3, protowire.BytesType):
			h.By, err = text(f.bytes, old.By)
		case f.is(4, protowire.VarintType):
			h.Since = toTime(int64(f.number))
		case f.is(5, protowire.VarintType):
			h.Until = toTime(int64(f.number))
		}
	}
	switch {
	case f.err != nil || err != nil:
		return nil, errors.Join(f.err, err)
	case h.Count == 0:
		return nil, errUnread
	case before != nil && h.Equal(before):
		return before, nil
	}
	made := h // so that one that is shared costs nothing
	return &made, nil
}

package solo

import (
	"math"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/internal/wire"
	"github.com/eiderhq/eider/server/internal/ledger"
)

// How pieces of the memory are written. A key is a letter, the service, a zero byte and the id or the caller's name;
// a value has protobuf's form, whose fields are numbered here. A reader skips numbers that it doesn't know, and
// what a writer didn't know is zero: so fields are added without another version, and no number is used again.

// Of an instance.
const (
	keptRecord    protowire.Number = 1 // eider.v1.Record
	keptCaller    protowire.Number = 2 // text
	keptLease     protowire.Number = 3 // milliseconds
	keptFlags     protowire.Number = 4 // keptDialable | keptReachable | keptUnknown
	keptFormer    protowire.Number = 5 // fixed64, each
	keptEnded     protowire.Number = 6 // fixed64: unix nanoseconds
	keptSecret    protowire.Number = 7 // 16 bytes: the digest
	keptPause     protowire.Number = 8 // milliseconds
	keptDialable                   = 1
	keptReachable                  = 2
	keptUnknown                    = 4
)

// Of a caller of a service.
const (
	callerKind protowire.Number = 1 // text
	callerCap  protowire.Number = 2 // milliseconds
)

// Of a key's holding.
const (
	markCount protowire.Number = 1
	markHold  protowire.Number = 2 // eider.v1.Hold; none if it was released
	markGone  protowire.Number = 3 // fixed64: unix nanoseconds
)

// Of the wait for callers from before.
const beforeWait protowire.Number = 1 // milliseconds

// The letters.
const (
	ofInstance = "i"
	ofCaller   = "c"
	ofHold     = "h"
	ofBefore   = "b"
)

// keyOf is where a piece is kept.
func keyOf(t ledger.Trace) string {
	if t == (ledger.Trace{}) {
		return ofBefore
	}
	if t.ID != "" {
		return ofInstance + t.Service + "\x00" + t.ID
	}
	if t.Held != "" {
		return ofHold + t.Service + "\x00" + t.Held
	}
	return ofCaller + t.Service + "\x00" + t.Caller
}

// traceOf reads keyOf; false for a key of another version.
func traceOf(key string) (ledger.Trace, bool) {
	if key == "" || key == ofBefore {
		return ledger.Trace{}, key != ""
	}
	service, name, ok := strings.Cut(key[1:], "\x00")
	switch {
	case !ok || service == "" || name == "":
	case key[:1] == ofInstance:
		return ledger.Trace{Service: service, ID: name}, true
	case key[:1] == ofCaller:
		return ledger.Trace{Service: service, Caller: name}, true
	case key[:1] == ofHold:
		return ledger.Trace{Service: service, Held: name}, true
	}
	return ledger.Trace{}, false
}

func number(b []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

func fixed(b []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), v)
}

func text(b []byte, field protowire.Number, v string) []byte {
	if v == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), v)
}

func encodeInstance(k *ledger.Kept) ([]byte, error) {
	record := encodeRecord(make([]byte, 0, 512), &k.Record)
	b := make([]byte, 0, len(record)+len(k.Caller)+64)
	b = protowire.AppendBytes(protowire.AppendTag(b, keptRecord, protowire.BytesType), record)
	b = text(b, keptCaller, k.Caller)
	b = number(b, keptLease, uint64(k.Lease.Milliseconds()))
	var flags uint64
	if k.Dialable {
		flags |= keptDialable
	}
	if k.Reachable {
		flags |= keptReachable
	}
	if k.Unknown {
		flags |= keptUnknown
	}
	b = number(b, keptFlags, flags)
	b = number(b, keptPause, uint64(k.Pause.Milliseconds()))
	for _, nonce := range k.Former {
		b = fixed(b, keptFormer, nonce)
	}
	if k.Secret != (ledger.Secret{}) {
		b = protowire.AppendBytes(protowire.AppendTag(b, keptSecret, protowire.BytesType), k.Secret[:])
	}
	if !k.Ended.IsZero() {
		b = fixed(b, keptEnded, uint64(k.Ended.UnixNano()))
	}
	return b, nil
}

// encodeRecord writes an eider.v1.Record by hand, since a message of protobuf's costs three times as much, and pairs in
// order, since the same has to be the same bytes: they aren't written again.
func encodeRecord(b []byte, r *eider.Record) []byte {
	b = text(b, 1, r.Service)
	b = text(b, 2, r.ID)
	var in [24]byte
	b = nested(b, 3, fixed(number(in[:0], 1, r.Incarnation.Number), 2, r.Incarnation.Nonce))
	b = number(b, 4, r.Attachment)
	b = number(b, 5, r.Version)
	b = number(b, 6, uint64(r.Status))
	b = text(b, 7, r.Address)
	var pair [256]byte
	for _, name := range sorted(r.Ports) {
		b = nested(b, 8, number(text(pair[:0], 1, name), 2, uint64(r.Ports[name])))
	}
	b = text(b, 9, r.Zone)
	for _, name := range sorted(r.Metadata) {
		b = nested(b, 10, text(text(pair[:0], 1, name), 2, r.Metadata[name]))
	}
	return b
}

func nested(b []byte, field protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), message)
}

func sorted[V any](m map[string]V) []string {
	if len(m) == 0 {
		return nil
	}
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// decodeInstance reads encodeInstance; false for what is none.
func decodeInstance(t ledger.Trace, value []byte) (k ledger.Kept, ok bool) {
	former, found := 0, false
	whole := fields(value, func(field protowire.Number, v uint64, b []byte) {
		switch field {
		case keptRecord:
			var m pb.Record
			if proto.Unmarshal(b, &m) != nil {
				return
			}
			rec, err := wire.ToRecord(&m, t.Service)
			k.Record, found = rec, err == nil && rec.ID == t.ID
		case keptCaller:
			k.Caller = string(b)
		case keptLease:
			k.Lease = milliseconds(v)
		case keptFlags:
			k.Dialable, k.Reachable = v&keptDialable != 0, v&keptReachable != 0
			k.Unknown = v&keptUnknown != 0
		case keptPause:
			k.Pause = milliseconds(v)
		case keptFormer:
			if former < len(k.Former) {
				k.Former[former] = v
				former++
			}
		case keptSecret:
			if len(b) == len(k.Secret) {
				k.Secret = ledger.Secret(b)
			}
		case keptEnded:
			k.Ended = time.Unix(0, int64(v))
		}
	})
	if k.Record.Status.Live() && k.Record.Check() != nil {
		return k, false
	}
	return k, whole && found
}

func encodeCaller(c *eider.Caller) []byte {
	return number(text(nil, callerKind, string(c.Kind)), callerCap, uint64(c.Cap.Milliseconds()))
}

func decodeCaller(t ledger.Trace, value []byte) (eider.Caller, bool) {
	c := eider.Caller{ID: t.Caller, Service: t.Service}
	whole := fields(value, func(field protowire.Number, v uint64, b []byte) {
		switch field {
		case callerKind:
			c.Kind = eider.CallerKind(b)
		case callerCap:
			c.Cap = milliseconds(v)
		}
	})
	return c, whole
}

func encodeMark(m *ledger.Mark) ([]byte, error) {
	b := number(nil, markCount, m.Count)
	if m.Hold != nil {
		hold, err := proto.MarshalOptions{Deterministic: true}.Marshal(wire.FromHold(m.Hold))
		if err != nil {
			return nil, err
		}
		b = protowire.AppendBytes(protowire.AppendTag(b, markHold, protowire.BytesType), hold)
	}
	if !m.Gone.IsZero() {
		b = fixed(b, markGone, uint64(m.Gone.UnixNano()))
	}
	return b, nil
}

// decodeMark reads encodeMark; false for what is none.
func decodeMark(t ledger.Trace, value []byte) (m ledger.Mark, ok bool) {
	m.Key, ok = eider.Key{Service: t.Service, ID: t.Held}, true
	whole := fields(value, func(field protowire.Number, v uint64, b []byte) {
		switch field {
		case markCount:
			m.Count = v
		case markHold:
			var hold pb.Hold
			var err error
			if err = proto.Unmarshal(b, &hold); err == nil {
				m.Hold, err = wire.ToHold(&hold)
			}
			ok = ok && err == nil && m.Hold.Check() == nil
		case markGone:
			m.Gone = time.Unix(0, int64(v))
		}
	})
	return m, ok && whole && m.Count > 0 && (m.Hold == nil || m.Hold.Count == m.Count)
}

func encodeBefore(wait time.Duration) []byte {
	return number(nil, beforeWait, uint64(wait.Milliseconds()))
}

func decodeBefore(value []byte) (wait time.Duration, ok bool) {
	ok = fields(value, func(field protowire.Number, v uint64, _ []byte) {
		if field == beforeWait {
			wait = milliseconds(v)
		}
	})
	return wait, ok
}

func milliseconds(v uint64) time.Duration {
	return time.Duration(min(v, math.MaxInt64/uint64(time.Millisecond))) * time.Millisecond
}

// fields calls take with each field, and tells whether the value has its form.
func fields(value []byte, take func(field protowire.Number, v uint64, b []byte)) bool {
	for len(value) > 0 {
		field, kind, n := protowire.ConsumeTag(value)
		if n < 0 {
			return false
		}
		value = value[n:]
		var v uint64
		var b []byte
		switch kind {
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(value)
		case protowire.Fixed64Type:
			v, n = protowire.ConsumeFixed64(value)
		case protowire.BytesType:
			b, n = protowire.ConsumeBytes(value)
		default:
			n = protowire.ConsumeFieldValue(field, kind, value)
		}
		if n < 0 {
			return false
		}
		take(field, v, b)
		value = value[n:]
	}
	return true
}

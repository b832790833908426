package wire

import (
	"errors"
	"math"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
)

var (
	errUnread = errors.New("a line that can't be read")
	errUTF8   = errors.New("a text isn't UTF-8")
	errOdd    = errors.New("a field that no encoder of ours makes")
)

// fields walks over the fields of an encoded message.
type fields struct {
	rest   []byte
	num    protowire.Number
	typ    protowire.Type
	number uint64 // of a varint or a fixed64
	bytes  []byte
	err    error
}

func (f *fields) next() bool {
	if len(f.rest) == 0 || f.err != nil {
		return false
	}
	num, typ, n := protowire.ConsumeTag(f.rest)
	if n < 0 {
		f.err = protowire.ParseError(n)
		return false
	}
	if num > protowire.MaxValidNumber {
		f.err = errOdd
		return false
	}
	f.num, f.typ = num, typ
	b, m := f.rest[n:], 0
	switch typ {
	case protowire.VarintType:
		f.number, m = protowire.ConsumeVarint(b)
	case protowire.Fixed64Type:
		f.number, m = protowire.ConsumeFixed64(b)
	case protowire.BytesType:
		f.bytes, m = protowire.ConsumeBytes(b)
	case protowire.Fixed32Type:
		_, m = protowire.ConsumeFixed32(b)
	default: // a group
		f.err = errOdd
		return false
	}
	if m < 0 {
		f.err = protowire.ParseError(m)
		return false
	}
	f.rest = b[m:]
	return true
}

// is tells whether the field is this one; one of another type than it should be is unknown.
func (f *fields) is(num protowire.Number, typ protowire.Type) bool {
	return f.num == num && f.typ == typ
}

// text makes a string, or shares the one before if it says the same.
func text(b []byte, before string) (string, error) {
	if string(b) == before {
		return before, nil
	}
	if !utf8.Valid(b) {
		return "", errUTF8
	}
	return string(b), nil
}

// parseInstance reads an encoded Instance. A line that is protobuf and still can't be read is errUnread.
func parseInstance(in *eider.Instance, b []byte, service string, before *eider.View) (odd bool, err error) {
	var record, hold []byte
	records, holds := 0, 0
	f := fields{rest: b}
	for f.next() {
		switch {
		case f.is(1, protowire.BytesType):
			record, records = f.bytes, records+1
		case f.is(2, protowire.VarintType):
			in.Suspicion = eider.Suspicion(uint32(f.number)) & observed
		case f.is(3, protowire.BytesType):
			hold, holds = f.bytes, holds+1
		}
	}
	if odd = records > 1 || holds > 1; f.err != nil || odd {
		return odd, f.err
	}
	old := find(before, record)
	p := recordParser{rec: &in.Record, old: &old.Record}
	in.Service = service
	if odd, err = p.parse(record); err != nil || odd {
		return odd, err
	}
	if holds > 0 {
		if in.Hold, err = parseHold(hold, old.Hold); err != nil {
			return false, err
		}
	}
	if records == 0 || p.unread || in.Incarnation.Nonce == 0 {
		return false, errUnread
	}
	in.Status, err = ToStatus(pb.Status(int32(p.status)))
	if err != nil {
		return false, errUnread
	}
	return false, nil
}

// find returns what is known of the instance that an encoded record names; an empty one if nothing is.
func find(before *eider.View, record []byte) *eider.Instance {
	if before == nil {
		return new(eider.Instance)
	}
	var id []byte
	f := fields{rest: record}
	for f.next() {
		if f.is(2, protowire.BytesType) {
			id = f.bytes
		}
	}
	at, found := slices.BinarySearchFunc(before.Instances, id, func(in eider.Instance, id []byte) int {
		switch {
		case in.ID < string(id):
			return -1
		case in.ID > string(id):
			return 1
		}
		return 0
	})
	if !found {
		return new(eider.Instance)
	}
	return &before.Instances[at]
}

// recordParser reads an encoded Record beside the one that was known before.
type recordParser struct {
	rec, old *eider.Record
	status   uint64
	unread   bool
	odd      bool
	ports    mapParser[uint16]
	metadata mapParser[string]
}

func (p *recordParser) parse(b []byte) (odd bool, err error) {
	incarnations := 0
	f := fields{rest: b}
	for f.next() && err == nil {
		switch {
		case f.is(1, protowire.BytesType): // the service, which the view names
			_, err = text(f.bytes, p.rec.Service)
		case f.is(2, protowire.BytesType):
			p.rec.ID, err = text(f.bytes, p.old.ID)
		case f.is(3, protowire.BytesType):
			incarnations++
			p.rec.Incarnation, err = parseIncarnation(f.bytes)
		case f.is(4, protowire.VarintType):
			p.rec.Attachment = f.number
		case f.is(5, protowire.VarintType):
			p.rec.Version = f.number
		case f.is(6, protowire.VarintType):
			p.status = f.number
		case f.is(7, protowire.BytesType):
			p.rec.Address, err = text(f.bytes, p.old.Address)
		case f.is(8, protowire.BytesType):
			err = p.port(f.bytes)
		case f.is(9, protowire.BytesType):
			p.rec.Zone, err = text(f.bytes, p.old.Zone)
		case f.is(10, protowire.BytesType):
			err = p.pair(f.bytes)
		}
	}
	if err == nil {
		err = f.err
	}
	p.rec.Ports, p.rec.Metadata = p.ports.done(p.old.Ports), p.metadata.done(p.old.Metadata)
	return p.odd || incarnations > 1, err
}

func parseIncarnation(b []byte) (in eider.Incarnation, err error) {
	f := fields{rest: b}
	for f.next() {
		switch {
		case f.is(1, protowire.VarintType):
			in.Number = f.number
		case f.is(2, protowire.Fixed64Type):
			in.Nonce = f.number
		}
	}
	return in, f.err
}

func (p *recordParser) port(b []byte) error {
	var key []byte
	var port uint32
	f := fields{rest: b}
	for f.next() {
		switch {
		case f.is(1, protowire.BytesType):
			p.odd = p.odd || key != nil
			key = f.bytes
		case f.is(2, protowire.VarintType):
			port = uint32(f.number)
		}
	}
	if f.err != nil {
		return f.err
	}
	if !utf8.Valid(key) {
		return errUTF8
	}
	if port > math.MaxUint16 {
		p.unread = true
		return nil
	}
	p.ports.put(p.old.Ports, key, uint16(port))
	return nil
}

func (p *recordParser) pair(b []byte) error {
	var key, value []byte
	f := fields{rest: b}
	for f.next() {
		switch {
		case f.is(1, protowire.BytesType):
			p.odd = p.odd || key != nil
			key = f.bytes
		case f.is(2, protowire.BytesType):
			p.odd = p.odd || value != nil
			value = f.bytes
		}
	}
	if f.err != nil {
		return f.err
	}
	if !utf8.Valid(key) {
		return errUTF8
	}
	old := p.old.Metadata[string(key)]
	text, err := text(value, old)
	if err != nil {
		return err
	}
	p.metadata.put(p.old.Metadata, key, text)
	return nil
}

// mapParser collects the entries of a map, and shares the map that was known before as long as every entry is in it.
type mapParser[V comparable] struct {
	made map[string]V
	seen [8][]byte // the keys that were shared, in order; a map with more is made anew
	n    int
}

func (m *mapParser[V]) put(old map[string]V, key []byte, value V) {
	if m.made == nil {
		before, known := old[string(key)]
		again := slices.ContainsFunc(m.seen[:m.n], func(k []byte) bool { return string(k) == string(key) })
		if known && before == value && !again && m.n < len(m.seen) {
			m.seen[m.n] = key
			m.n++
			return
		}
		m.own(old)
	}
	m.made[string(key)] = value
}

// own begins a map of its own with the entries that were shared so far.
func (m *mapParser[V]) own(old map[string]V) {
	m.made = make(map[string]V, m.n+1)
	for _, key := range m.seen[:m.n] {
		m.made[string(key)] = old[string(key)]
	}
}

// done returns the map; nil if it has no entry.
func (m *mapParser[V]) done(old map[string]V) map[string]V {
	if m.made == nil && m.n == len(old) && m.n > 0 {
		return old
	}
	if m.made == nil && m.n > 0 {
		m.own(old)
	}
	return m.made
}

// parseGone reads an encoded Gone. A line that is protobuf and still can't be read is errUnread.
func parseGone(b []byte) (g eider.Gone, odd bool, err error) {
	var status uint64
	incarnations := 0
	f := fields{rest: b}
	for f.next() && err == nil {
		switch {
		case f.is(1, protowire.BytesType):
			g.ID, err = text(f.bytes, "")
		case f.is(2, protowire.BytesType):
			incarnations++
			g.Incarnation, err = parseIncarnation(f.bytes)
		case f.is(3, protowire.VarintType):
			g.Attachment = f.number
		case f.is(4, protowire.VarintType):
			g.Version = f.number
		case f.is(5, protowire.VarintType):
			status = f.number
		}
	}
	if err == nil {
		err = f.err
	}
	if err != nil || incarnations > 1 {
		return g, true, err
	}
	g.Status, err = ToStatus(pb.Status(int32(status)))
	if err != nil || !g.Status.Gone() || g.Incarnation.Nonce == 0 || g.ID == "" {
		return g, false, errUnread
	}
	return g, false, nil
}

package wire

import (
	"cmp"
	"errors"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
)

// View is what one View message says: a snapshot, or the change to the view at Base.
type View struct {
	Service   string
	Cursor    eider.Cursor
	Complete  bool
	Base      uint64           // 0: a snapshot
	Instances []eider.Instance // ordered by id, each id once
	Gone      []eider.Gone     // likewise
	Unread    int              // lines that couldn't be read, as those of a newer node may be; they are left out
}

// CutView returns the encoded View inside an encoded WatchReply, if that holds one and nothing else.
func CutView(reply []byte) (view []byte, ok bool) {
	num, typ, n := protowire.ConsumeTag(reply)
	if n < 0 || num != 2 || typ != protowire.BytesType {
		return nil, false
	}
	view, m := protowire.ConsumeBytes(reply[n:])
	return view, m >= 0 && n+m == len(reply)
}

// Parse reads an encoded View into v, whose slices it uses again. What is the same in the view that is
// known of the service already (names, addresses, metadata) is shared with that one and not made anew: of a thousand
// callers that hear that one status has changed, none makes a string. The error is for what isn't protobuf.
//
// It does what proto.Unmarshal and ToInstance do, which it leaves the odd cases to.
func (v *View) Parse(b []byte, known func(service []byte) *eider.View) error {
	*v = View{Instances: v.Instances[:0], Gone: v.Gone[:0]}
	before, odd, err := v.head(b, known)
	if err == nil && !odd {
		odd, err = v.lines(b, before)
	}
	if err != nil || odd {
		return v.slowly(b)
	}
	v.order()
	return nil
}

// slowly reads what came in an order or a shape that nobody's encoder makes.
func (v *View) slowly(b []byte) error {
	var m pb.View
	if err := proto.Unmarshal(b, &m); err != nil {
		return err
	}
	*v = View{Service: m.GetService(), Cursor: ToCursor(m.GetCursor()), Complete: m.GetComplete(), Base: m.GetBase()}
	for _, line := range m.GetInstances() {
		in, err := ToInstance(line, v.Service)
		if err != nil || in.ID == "" || !in.Status.Live() {
			v.Unread++
			continue
		}
		v.Instances = append(v.Instances, in)
	}
	for _, line := range m.GetGone() {
		if g, err := ToGone(line); err == nil && g.ID != "" {
			v.Gone = append(v.Gone, g)
		}
	}
	v.order()
	return nil
}

// order puts lines into order, if they aren't. Of two with one id the greater record stays.
func (v *View) order() {
	byID := func(a, b eider.Instance) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), b.Record.Compare(&a.Record))
	}
	if !slices.IsSortedFunc(v.Instances, byID) {
		slices.SortStableFunc(v.Instances, byID)
	}
	v.Instances = slices.CompactFunc(v.Instances, func(a, b eider.Instance) bool { return a.ID == b.ID })
	goneByID := func(a, b eider.Gone) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), b.Incarnation.Compare(a.Incarnation))
	}
	if !slices.IsSortedFunc(v.Gone, goneByID) {
		slices.SortStableFunc(v.Gone, goneByID)
	}
	v.Gone = slices.CompactFunc(v.Gone, func(a, b eider.Gone) bool { return a.ID == b.ID })
}

// head reads what isn't a line, and returns what is known of the service.
func (v *View) head(b []byte, known func([]byte) *eider.View) (before *eider.View, odd bool, err error) {
	var service, cursor []byte
	services, cursors := 0, 0
	f := fields{rest: b}
	for f.next() {
		switch {
		case f.is(1, protowire.BytesType):
			service, services = f.bytes, services+1
		case f.is(2, protowire.BytesType):
			cursor, cursors = f.bytes, cursors+1
		case f.is(3, protowire.VarintType):
			v.Complete = f.number != 0
		case f.is(4, protowire.VarintType):
			v.Base = f.number
		}
	}
	if f.err != nil || services > 1 || cursors > 1 || len(service) == 0 { // without a name each record has its own
		return nil, true, f.err
	}
	c := fields{rest: cursor}
	for c.next() {
		switch {
		case c.is(1, protowire.Fixed64Type):
			v.Cursor.Run = c.number
		case c.is(2, protowire.VarintType):
			v.Cursor.Number = c.number
		}
	}
	if c.err != nil {
		return nil, true, c.err
	}
	name := ""
	if before = known(service); before != nil {
		name = before.Service
	}
	v.Service, err = text(service, name)
	return before, false, err
}

// lines reads the instances and who is gone.
func (v *View) lines(b []byte, before *eider.View) (odd bool, err error) {
	f := fields{rest: b}
	for f.next() {
		switch {
		case f.is(5, protowire.BytesType):
			v.Instances = append(v.Instances, eider.Instance{})
			in := &v.Instances[len(v.Instances)-1]
			odd, err := parseInstance(in, f.bytes, v.Service, before)
			if errors.Is(err, errUnread) || err == nil && !odd && (in.ID == "" || !in.Status.Live()) {
				v.Instances = v.Instances[:len(v.Instances)-1]
				v.Unread++
				continue
			}
			if err != nil || odd {
				return odd, err
			}
		case f.is(6, protowire.BytesType):
			g, odd, err := parseGone(f.bytes)
			if errors.Is(err, errUnread) {
				continue
			}
			if err != nil || odd {
				return odd, err
			}
			v.Gone = append(v.Gone, g)
		}
	}
	return false, f.err
}

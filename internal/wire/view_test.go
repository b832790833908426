package wire

import (
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
)

// sample is a view with everything that a view can have.
func sample() *pb.View {
	v := &pb.View{Service: "orders", Cursor: &pb.Cursor{Run: 1 << 60, Number: 7}, Complete: true, Base: 6}
	held := map[string]*eider.Hold{"b": {Count: 4, Reason: "disk swap → 7", By: "ops", Since: time.UnixMilli(1_700_000_000_123), Until: time.UnixMilli(1_700_000_600_000)}}
	for _, id := range []string{"a", "b", "c"} {
		v.Instances = append(v.Instances, FromInstance(&eider.Instance{Suspicion: eider.Wedged, Hold: held[id], Record: eider.Record{
			Key: eider.Key{Service: "orders", ID: id}, Incarnation: eider.Incarnation{Number: 3, Nonce: 9}, Attachment: 2, Version: 5,
			Status: eider.Up, Address: "10.0.0.7:8080", Ports: map[string]uint16{"grpc": 9090}, Zone: "z1",
			Metadata: map[string]string{"version": "1.2.3", "owner": "payments", "ü": "→"},
		}}))
	}
	v.Gone = []*pb.Gone{{Id: "d", Incarnation: &pb.Incarnation{Number: 1, Nonce: 4}, Attachment: 1, Version: 8, Status: pb.Status_STATUS_DEAD}}
	return v
}

func encode(t testing.TB, v *pb.View) []byte {
	b, err := proto.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// slow reads a view the long way.
func slow(b []byte) (v View, err error) {
	err = v.slowly(b)
	return v, err
}

func viewOf(v *View) *eider.View {
	return &eider.View{Service: strings.Clone(v.Service), Cursor: v.Cursor, Instances: append([]eider.Instance(nil), v.Instances...)}
}

func TestParseViewSharesWhatIsKnown(t *testing.T) {
	b := encode(t, sample())
	var first, second View
	if err := first.Parse(b, func([]byte) *eider.View { return nil }); err != nil {
		t.Fatal(err)
	}
	known := viewOf(&first)
	changed := sample()
	changed.Instances = changed.Instances[1:2]
	changed.Instances[0].Record.Status = pb.Status_STATUS_DRAINING
	changed.Gone = nil
	b = encode(t, changed)
	if err := second.Parse(b, func([]byte) *eider.View { return known }); err != nil {
		t.Fatal(err)
	}
	was, is := &first.Instances[1], &second.Instances[0]
	if is.Status != eider.Draining || is.ID != "b" {
		t.Errorf("read %v", is)
	}
	if unsafe.StringData(was.Address) != unsafe.StringData(is.Address) || unsafe.StringData(was.Zone) != unsafe.StringData(is.Zone) {
		t.Error("texts that were known are made anew")
	}
	if was.Hold != is.Hold || is.Hold == nil {
		t.Error("a hold that was known is made anew")
	}
	is.Metadata["x"] = "y" // shared on purpose; nobody but a test writes to it
	if was.Metadata["x"] != "y" {
		t.Error("metadata that was known is made anew")
	}
	delete(is.Metadata, "x")
	if n := testing.AllocsPerRun(100, func() { second.Parse(b, func([]byte) *eider.View { return known }) }); n != 0 {
		t.Errorf("a changed status allocates %v times, want 0", n)
	}
}

func TestParseViewNeverSharesWhatDiffers(t *testing.T) {
	var first View
	if err := first.Parse(encode(t, sample()), func([]byte) *eider.View { return nil }); err != nil {
		t.Fatal(err)
	}
	known := viewOf(&first)
	for name, change := range map[string]func(*pb.Record){
		"a value":     func(r *pb.Record) { r.Metadata["owner"] = "search" },
		"one more":    func(r *pb.Record) { r.Metadata["more"] = "x" },
		"one less":    func(r *pb.Record) { delete(r.Metadata, "owner") },
		"none":        func(r *pb.Record) { r.Metadata, r.Ports = nil, nil },
		"other ports": func(r *pb.Record) { r.Ports = map[string]uint32{"grpc": 1, "http": 2} },
		"a key": func(r *pb.Record) {
			delete(r.Metadata, "owner")
			r.Metadata["other"] = "payments"
		},
	} {
		v := sample()
		change(v.Instances[0].Record)
		var got View
		if err := got.Parse(encode(t, v), func([]byte) *eider.View { return known }); err != nil {
			t.Fatal(err)
		}
		want, _ := slow(encode(t, v))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-the long way, +the short way)\n%s", name, diff)
		}
	}
}

func TestParseViewLeavesOutWhatItCantRead(t *testing.T) {
	v := sample()
	v.Instances[0].Record.Status = 77
	v.Instances[1].Record.Incarnation.Nonce = 0
	v.Instances[2].Record.Ports["grpc"] = 70_000
	v.Instances = append(v.Instances, sample().Instances[2], &pb.Instance{}, &pb.Instance{Record: &pb.Record{Id: "z"}})
	v.Gone = append(v.Gone, &pb.Gone{Id: "e", Status: pb.Status_STATUS_LEFT}, &pb.Gone{Id: "f", Incarnation: &pb.Incarnation{Nonce: 1}, Status: pb.Status_STATUS_UP})
	var got View
	if err := got.Parse(encode(t, v), func([]byte) *eider.View { return nil }); err != nil {
		t.Fatal(err)
	}
	if got.Unread != 5 || len(got.Instances) != 1 || len(got.Gone) != 1 {
		t.Errorf("%d unread, %d instances, %d gone; want 5, 1, 1", got.Unread, len(got.Instances), len(got.Gone))
	}
}

// Whatever the bytes, the short way and the long way agree.
func FuzzParseView(f *testing.F) {
	base := encode(f, sample())
	f.Add(base)
	f.Add(append(base, base...))                      // cursor, records and all of it twice
	f.Add([]byte{0x2a, 2, 0x12, 0})                   // an instance without a record
	f.Add([]byte{0x2a, 6, 0x0a, 0, 0x0a, 2, 0x12, 0}) // two records
	f.Add([]byte{0x2a, 6, 0x1a, 0, 0x1a, 2, 8, 3})    // two holds, none of them whole
	f.Add([]byte("\x0a\x02\xff\xfe"))                 // a name that isn't UTF-8
	nameless := sample()                              // the record names the service, the view doesn't
	nameless.Service, nameless.Instances[0].Record.Service = "", "orders"
	f.Add(encode(f, nameless))
	var first View
	if err := first.Parse(base, func([]byte) *eider.View { return nil }); err != nil {
		f.Fatal(err)
	}
	known := viewOf(&first)
	f.Fuzz(func(t *testing.T, b []byte) {
		want, wantErr := slow(b)
		for _, before := range []*eider.View{nil, known} {
			var got View
			err := got.Parse(b, func([]byte) *eider.View { return before })
			if (err == nil) != (wantErr == nil) {
				t.Fatalf("the short way: %v; the long way: %v", err, wantErr)
			}
			if err != nil {
				continue
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("(-the long way, +the short way)\n%s", diff)
			}
		}
	})
}

func BenchmarkParseView(b *testing.B) {
	v := sample()
	v.Instances, v.Gone = v.Instances[:1], nil
	data := encode(b, v)
	var first View
	first.Parse(data, func([]byte) *eider.View { return nil })
	known := viewOf(&first)
	b.Run("short", func(b *testing.B) {
		var got View
		b.ReportAllocs()
		for b.Loop() {
			got.Parse(data, func([]byte) *eider.View { return known })
		}
	})
	b.Run("long", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			slow(data)
		}
	})
}

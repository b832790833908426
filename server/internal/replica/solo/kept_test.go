package solo

import (
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/ledger"
)

func anyKept(t *rapid.T) ledger.Kept {
	word := rapid.StringMatching(`[a-z0-9]{1,12}`)
	k := ledger.Kept{
		Record: eider.Record{Key: eider.Key{Service: word.Draw(t, "service"), ID: word.Draw(t, "id")},
			Incarnation: eider.Incarnation{Number: rapid.Uint64().Draw(t, "number"), Nonce: rapid.Uint64Min(1).Draw(t, "nonce")},
			Attachment:  rapid.Uint64().Draw(t, "attachment"), Version: rapid.Uint64().Draw(t, "version"),
			Status: eider.Status(rapid.IntRange(1, 7).Draw(t, "status")), Address: "10.0.0.1:80", Zone: word.Draw(t, "zone")},
		Caller: word.Draw(t, "caller"), Lease: time.Duration(rapid.IntRange(0, 3_600_000).Draw(t, "lease")) * time.Millisecond,
		Dialable: rapid.Bool().Draw(t, "dialable"), Reachable: rapid.Bool().Draw(t, "reachable"),
		Unknown: rapid.Bool().Draw(t, "unknown"), Pause: time.Duration(rapid.IntRange(0, 60_000).Draw(t, "pause")) * time.Millisecond,
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "former") {
		k.Former[i] = rapid.Uint64Min(1).Draw(t, "nonce of a former")
	}
	if rapid.Bool().Draw(t, "pairs") {
		k.Record.Ports = rapid.MapOfN(word, rapid.Uint16Min(1), 1, 3).Draw(t, "ports")
		k.Record.Metadata = rapid.MapOfN(word, rapid.String(), 1, 3).Draw(t, "metadata")
	}
	if rapid.Bool().Draw(t, "secret") {
		k.Secret = ledger.Secret(rapid.SliceOfN(rapid.ByteMin(1), 16, 16).Draw(t, "digest"))
	}
	if k.Record.Status.Gone() {
		k.Ended = time.Unix(0, rapid.Int64Min(1).Draw(t, "ended"))
	}
	return k
}

func TestPiecesComeBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		k := anyKept(rt)
		trace := ledger.Trace{Service: k.Record.Service, ID: k.Record.ID}
		value, err := encodeInstance(&k)
		if err != nil {
			rt.Fatal(err)
		}
		value = append(value, 0xfa, 0x3f, 3, 'n', 'e', 'w') // a field of another version
		back, ok := decodeInstance(trace, value)
		if !ok || !reflect.DeepEqual(back, k) {
			rt.Fatalf("%+v came back as %+v, %t", k, back, ok)
		}
		if got, ok := traceOf(keyOf(trace)); !ok || got != trace {
			rt.Fatalf("%+v came back as %+v", trace, got)
		}
		c := eider.Caller{ID: "c@1\x00x", Service: k.Record.Service, Kind: eider.Native, Cap: k.Lease}
		of := ledger.Trace{Service: c.Service, Caller: c.ID}
		if got, ok := traceOf(keyOf(of)); !ok || got != of {
			rt.Fatalf("%+v came back as %+v", of, got)
		}
		if got, ok := decodeCaller(of, encodeCaller(&c)); !ok || !reflect.DeepEqual(got, c) {
			rt.Fatalf("%+v came back as %+v", c, got)
		}
	})
}

// FuzzPieces reads any bytes as a piece.
func FuzzPieces(f *testing.F) {
	k := ledger.Kept{Record: full(0), Caller: "p", Lease: time.Second, Former: [4]uint64{7}}
	value, err := encodeInstance(&k)
	if err != nil {
		f.Fatal(err)
	}
	f.Add("iorders\x000", value)
	f.Add("corders\x00c", encodeCaller(&eider.Caller{Kind: eider.Native, Cap: time.Second}))
	f.Add("", []byte{})
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		trace, ok := traceOf(key)
		if !ok {
			return
		}
		if keyOf(trace) != key {
			t.Errorf("%q is %+v", key, trace)
		}
		decodeCaller(trace, value)
		if k, ok := decodeInstance(trace, value); ok && trace.ID != "" {
			if k.Record.Service != trace.Service || k.Record.ID != trace.ID {
				t.Errorf("%+v under %+v", k, trace)
			}
		}
	})
}

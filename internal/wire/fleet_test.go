package wire

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
)

func TestSightsComeBackAsTheyWent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		age := func(label string) time.Duration {
			return time.Duration(rapid.Int64Range(0, 1e13).Draw(t, label)) * time.Microsecond
		}
		bytes := rapid.SliceOfN(rapid.Byte(), 1, 64)
		var want eider.FleetSight
		if want.Version = rapid.Uint64().Draw(t, "version"); want.Version != 0 {
			want.Record, want.Age = bytes.Draw(t, "record"), age("age")
		}
		for range rapid.IntRange(0, 3).Draw(t, "counts") {
			want.Counts = append(want.Counts, eider.FleetCount{Caller: rapid.String().Draw(t, "caller"), From: rapid.String().Draw(t, "from"),
				Age: age("told"), Count: bytes.Draw(t, "count")})
		}
		if diff := cmp.Diff(want, ToSight(overTheWire(t, FromSight(&want), &pb.Sight{}))); diff != "" {
			t.Fatal(diff)
		}
	})
}

// An age is never more than the truth, and never one that nobody meant.
func TestAgesAreRoundedDown(t *testing.T) {
	for age, want := range map[time.Duration]time.Duration{-time.Second: 0, 0: 0, time.Microsecond - 1: 0, 1999: time.Microsecond, math.MaxInt64: math.MaxInt64 / 1000 * 1000} {
		if got := ToSight(FromSight(&eider.FleetSight{Version: 1, Age: age})).Age; got != want {
			t.Errorf("%d comes as %d, want %d", age, got, want)
		}
	}
	if got := ToSight(&pb.Sight{Version: 1, AgeUs: math.MaxUint64}).Age; got < 0 {
		t.Errorf("the longest age comes as %d", got)
	}
	if got := ToSight(&pb.Sight{AgeUs: 1, Record: []byte("x")}); got.Age != 0 || got.Record != nil {
		t.Errorf("a record without a version: %+v", got)
	}
}

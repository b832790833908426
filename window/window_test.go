package window_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/eiderhq/eider/window"
)

const s = time.Second

// The numbers of REQUIREMENTS W7: Eureka's defaults after a crash.
func eureka() window.Sum {
	return window.Sum{
		{Name: "lease", Min: 60 * s, Max: 90 * s, Source: "3 beats of 30s"},
		{Name: "sweep", Max: 60 * s, Source: "eviction interval"},
		{Name: "client cache", Max: 30 * s, Source: "fetch interval"},
	}
}

func TestSumOfEurekasDefaults(t *testing.T) {
	if got, want := eureka().Worst(), 180*s; got != want {
		t.Errorf("worst case %s, want %s", got, want)
	}
	if got, want := eureka().Best(), 60*s; got != want {
		t.Errorf("best case %s, want %s", got, want)
	}
	want := "3m0s = lease 1m0s to 1m30s (3 beats of 30s) + sweep 0s to 1m0s (eviction interval) + client cache 0s to 30s (fetch interval)"
	if got := eureka().String(); got != want {
		t.Errorf("String:\n got %s\nwant %s", got, want)
	}
}

func TestTable(t *testing.T) {
	want := strings.Join([]string{
		"TERM          BEST  WORST  SOURCE",
		"lease         1m0s  1m30s  3 beats of 30s",
		"sweep         0s    1m0s   eviction interval",
		"client cache  0s    30s    fetch interval",
		"sum           1m0s  3m0s   ",
		"",
	}, "\n")
	if got := eureka().Table(); got != want {
		t.Errorf("Table:\n got\n%s\nwant\n%s", got, want)
	}
}

func TestEmptySum(t *testing.T) {
	var none window.Sum
	if none.Worst() != 0 || none.Best() != 0 || none.String() != "0s" || window.Longest() != nil {
		t.Errorf("the empty sum isn't nothing: %s", none)
	}
}

func TestLongest(t *testing.T) {
	quick := window.Sum{window.Fixed("push", s, "")}
	if got := window.Longest(quick, eureka(), quick); got.Worst() != 180*s {
		t.Errorf("longest is %s", got)
	}
}

func TestRoomOfKubernetesGrace(t *testing.T) {
	room := window.Room{
		Whole: window.Fixed("grace", 30*s, "EIDER_GRACE"),
		Parts: window.Sum{window.Fixed("in-flight deadline", 20*s, "default"), window.Fixed("margin", 2*s, "")},
	}
	if got := room.Worst(); got != 8*s {
		t.Errorf("room %s, want 8s", got)
	}
	want := "8s = grace 30s (EIDER_GRACE) − in-flight deadline 20s (default) − margin 2s"
	if got := room.String(); got != want {
		t.Errorf("String:\n got %s\nwant %s", got, want)
	}
	if room.Fits(eureka()) || !room.Fits(window.Sum{window.Fixed("cap", 8*s, "")}) {
		t.Error("Fits: 180s must not fit into 8s, 8s must")
	}
	room.Whole = window.Fixed("grace", 15*s, "EIDER_GRACE")
	if room.Worst() != 0 || room.Short() != 7*s || !strings.HasSuffix(room.String(), ", short by 7s") {
		t.Errorf("22s of 15s leave nothing and are short by 7s: %s", room)
	}
}

func TestCheckNamesEveryFault(t *testing.T) {
	err := window.Sum{{Min: -1, Max: s}, {Name: "cache", Min: 2 * s, Max: s}}.Check()
	if err == nil {
		t.Fatal("three faults pass")
	}
	for _, want := range []string{"has no name", "is below 0", `"cache": its worst case 1s is below its best case 2s`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error doesn't say %q:\n%v", want, err)
		}
	}
	if err := eureka().Check(); err != nil {
		t.Error(err)
	}
}

func terms() *rapid.Generator[window.Term] {
	return rapid.Custom(func(t *rapid.T) window.Term {
		low := rapid.Int64Range(0, math.MaxInt64).Draw(t, "min")
		return window.Term{Name: "t", Min: time.Duration(low), Max: time.Duration(rapid.Int64Range(low, math.MaxInt64).Draw(t, "max"))}
	})
}

// The laws: a further term never shortens a window, the best case is never above the worst, order
// doesn't matter, nothing wraps below 0, and a room is never more than its whole.
func TestLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sum := window.Sum(rapid.SliceOfN(terms(), 0, 6).Draw(t, "sum"))
		more := append(append(window.Sum{}, sum...), terms().Draw(t, "more"))
		if sum.Best() < 0 || sum.Best() > sum.Worst() {
			t.Fatalf("best %d, worst %d", sum.Best(), sum.Worst())
		}
		if more.Worst() < sum.Worst() || more.Best() < sum.Best() {
			t.Fatalf("a further term shortened %s to %s", sum, more)
		}
		turned := window.Sum(rapid.Permutation(sum).Draw(t, "turned"))
		if turned.Worst() != sum.Worst() || turned.Best() != sum.Best() {
			t.Fatalf("order counts: %s, %s", sum, turned)
		}
		room := window.Room{Whole: terms().Draw(t, "whole"), Parts: sum}
		if w := room.Worst(); w < 0 || w > room.Whole.Min || (w > 0 && room.Short() > 0) {
			t.Fatalf("room %s of %s, short by %s", w, room.Whole, room.Short())
		}
	})
}

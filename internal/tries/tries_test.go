package tries

import (
	"errors"
	"slices"
	"testing"

	"github.com/eiderhq/eider"
)

var (
	errRefused = errors.New("dial tcp 10.0.0.7:80: connect: connection refused")
	errCut     = errors.New("unexpected EOF")
)

func refused(id string) Failed {
	return Failed{Key: eider.Key{Service: "orders", ID: id}, Address: "10.0.0.7:80", Err: errRefused, Reason: "connection refused"}
}

func TestAnErrorNamesEveryTry(t *testing.T) {
	for _, row := range []struct {
		why  error
		ends string
	}{
		{ErrSpent, " (no tries are left)"}, {ErrBudget, " (the service's retry budget is spent)"}, {ErrAlone, " (no other instance can be called)"},
		{ErrFinal, ""}, // the last try says it already
	} {
		var l List
		l.Add(refused("a"), true, 3)
		l.Add(Failed{Key: eider.Key{Service: "orders", ID: "b"}, Address: "10.0.0.8:80", Err: errCut, Reason: "unexpected EOF"}, false, 3)
		err := l.End(row.why)
		if got, want := err.Error(), "tried orders/a 10.0.0.7:80: connection refused; orders/b 10.0.0.8:80: unexpected EOF"+row.ends; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if got, want := err.Unwrap(), []error{errCut, errRefused, row.why}; !slices.Equal(got, want) {
			t.Errorf("it wraps %q, want the last try's cause first: %q", got, want)
		}
	}
}

// What costs nobody anything doesn't count, but it comes to an end.
func TestU2FreeTriesAreBounded(t *testing.T) {
	for _, row := range []struct {
		free bool
		most int
		want int // tries until they are spent
	}{
		{free: false, most: 1, want: 1}, {free: false, most: 3, want: 3},
		{free: true, most: 1, want: 1}, // who has one try has it
		{free: true, most: 2, want: 18}, {free: true, most: 3, want: 19},
	} {
		var l List
		for !l.Spent(row.most) && l.Len() < 100 {
			l.Add(refused("a"), row.free, row.most)
		}
		if l.Len() != row.want {
			t.Errorf("%+v: spent after %d", row, l.Len())
		}
	}
}

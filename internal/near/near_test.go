package near

import (
	"math"
	"strings"
	"testing"
)

func TestName(t *testing.T) {
	known := []string{"orders", "order-lines", "billing", "lease", "leases"}
	for _, row := range []struct {
		name string
		most int
		want string
	}{
		{"orders", 0, "orders"},
		{"oders", 2, "orders"},      // one dropped
		{"ordders", 2, "orders"},    // one added
		{"ordees", 2, "orders"},     // one changed
		{"odrers", 2, "orders"},     // two that changed places
		{"odrers", 1, ""},           // are two slips
		{"leas", 2, "lease"},        // nearer than leases
		{"leaxe", 2, "lease"},       // one slip, and not two
		{"lea", 3, "lease"},         // the nearest, not the last that is near enough
		{"xxxxxx", 2, ""},           // another word
		{"xxxxxx", 6, "orders"},     // as far as two others: the first
		{"", 2, ""},                 // takes all letters of any
		{"b", math.MaxInt, "lease"}, // however far: five letters, billing six
		{strings.Repeat("orders", 11), 60, ""},
	} {
		if got := Name(row.name, known, row.most); got != row.want {
			t.Errorf("%q within %d slips is %q, want %q", row.name, row.most, got, row.want)
		}
	}
	if got := Name("orders", nil, math.MaxInt); got != "" {
		t.Errorf("of no names %q is nearest", got)
	}
}

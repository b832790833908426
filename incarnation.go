package eider

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Incarnation is one run of an instance's process. The process draws the nonce; the node that first
// attaches it gives the number (the highest it knows, tombstones included, plus one), which the
// process carries into every later attach. No clock is involved.
//
// Two incarnations are the same if their nonces are equal; the number only orders them.
type Incarnation struct {
	Number uint64 // 0 before the first attach
	Nonce  uint64 // random, never 0
}

// Is tells whether both are the same run of the same process: equality is by nonce.
func (i Incarnation) Is(other Incarnation) bool { return i.Nonce == other.Nonce }

// Compare orders by number, then by nonce.
func (i Incarnation) Compare(other Incarnation) int {
	if c := cmp.Compare(i.Number, other.Number); c != 0 {
		return c
	}
	return cmp.Compare(i.Nonce, other.Nonce)
}

// String writes number-nonce, the nonce as 16 hexadecimal digits; before the first attach the nonce alone.
func (i Incarnation) String() string {
	if i.Number == 0 {
		return fmt.Sprintf("%016x", i.Nonce)
	}
	return fmt.Sprintf("%d-%016x", i.Number, i.Nonce)
}

// ParseIncarnation reads what String writes.
func ParseIncarnation(text string) (Incarnation, error) {
	number, nonce, both := strings.Cut(text, "-")
	if !both {
		number, nonce = "", text
	}
	var in Incarnation
	var err error
	if both {
		if in.Number, err = strconv.ParseUint(number, 10, 64); err != nil || in.Number == 0 {
			return Incarnation{}, fmt.Errorf("incarnation %q: the number before the dash must be a whole number above 0", text)
		}
	}
	if in.Nonce, err = strconv.ParseUint(nonce, 16, 64); err != nil || len(nonce) != 16 || in.Nonce == 0 {
		return Incarnation{}, fmt.Errorf("incarnation %q: the nonce must be 16 hexadecimal digits, not all 0", text)
	}
	return in, nil
}

// MarshalText writes what String does.
func (i Incarnation) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// UnmarshalText reads what String writes.
func (i *Incarnation) UnmarshalText(text []byte) (err error) {
	*i, err = ParseIncarnation(string(text))
	return err
}

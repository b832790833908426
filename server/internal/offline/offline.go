// Package offline is the commands that need no server: window, and lint.
//
// It pulls in neither gRPC nor a registry, so that a small binary of its own can have them too.
package offline

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Desk is where a command puts its answer, and how.
type Desk struct {
	Out    io.Writer
	JSON   func() bool // asked when the command runs
	Colour func() bool
	Width  func() int // columns of the terminal; 0 means any
}

// Misuse is a command line that can't be carried out; it may be of several lines, a fault in each.
type Misuse struct{ err error }

func (m *Misuse) Error() string { return m.err.Error() }
func (m *Misuse) Unwrap() error { return m.err }

// misuse returns all faults as one error, nil if there is none.
func misuse(faults ...error) error {
	if err := errors.Join(faults...); err != nil {
		return &Misuse{err}
	}
	return nil
}

func (d Desk) print(text string) error {
	if _, err := io.WriteString(d.Out, text); err != nil {
		return fmt.Errorf("the answer can't be written: %w", err)
	}
	return nil
}

// printJSON writes v as the other commands of the house write theirs.
func (d Desk) printJSON(v any) error {
	var text strings.Builder
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	return d.print(text.String())
}

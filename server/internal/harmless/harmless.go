// Package harmless makes what strangers wrote fit to be shown: names, details, manifests.
package harmless

import (
	"strings"
	"unicode"
)

// Text replaces what could steer a terminal: all that isn't printed, line ends among it.
func Text(from string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, from)
}

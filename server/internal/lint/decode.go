package lint

import (
	"bytes"
	"encoding/binary"
	"unicode/utf16"
)

// decode makes UTF-8 of what shells of Windows write: UTF-16 with its mark, or without.
func decode(text []byte) []byte {
	var order binary.ByteOrder = binary.LittleEndian
	switch {
	case bytes.HasPrefix(text, []byte("\xef\xbb\xbf")):
		return text[3:]
	case len(text) < 2 || len(text)%2 != 0:
		return text
	case bytes.HasPrefix(text, []byte("\xff\xfe")), text[0] != 0 && text[1] == 0:
	case bytes.HasPrefix(text, []byte("\xfe\xff")), text[0] == 0 && text[1] != 0:
		order = binary.BigEndian
	default:
		return text
	}
	units := make([]uint16, len(text)/2)
	for i := range units {
		units[i] = order.Uint16(text[2*i:])
	}
	if units[0] == 0xfeff {
		units = units[1:]
	}
	return []byte(string(utf16.Decode(units)))
}

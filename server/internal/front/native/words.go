package native

import (
	"math/rand/v2"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/internal/wire"
)

// wireError writes an error for the other side. Text that came from there may not be UTF-8, which
// protobuf would refuse to send.
func wireError(err error) *pb.Error {
	m := wire.FromError(err)
	m.Message = strings.ToValidUTF8(m.GetMessage(), "\uFFFD")
	return m
}

// clip cuts a stranger's text to what a name may have, so that repeating it stays cheap.
func clip(name string) string {
	if len(name) > eider.MaxName {
		name = name[:eider.MaxName]
	}
	return strings.ToValidUTF8(name, "") // a rune may have been cut
}

func printable(s string) bool {
	for _, r := range s {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return false
		}
	}
	return true
}

// jitter spreads a time upwards by up to 30 %.
func jitter(d time.Duration) time.Duration { return d + time.Duration(rand.Float64()*0.3*float64(d)) }

package eidergrpc

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/eiderhq/eider/internal/fake"
)

// holder is a stats handler that holds gRPC's own second try, whose header is written, until a connection has ended.
type holder struct {
	injector
	ended chan struct{}
}

type tryOf struct{ repeated *bool }

func (h *holder) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, tryOf{}, &tryOf{new(bool)})
}

func (h *holder) HandleRPC(ctx context.Context, s stats.RPCStats) {
	try := ctx.Value(tryOf{}).(*tryOf)
	switch s := s.(type) {
	case *stats.Begin:
		*try.repeated = s.IsTransparentRetryAttempt
	case *stats.OutHeader:
		if *try.repeated {
			for range 2 { // that of the first try, and its own
				select {
				case <-h.ended:
				case <-time.After(patience):
				}
			}
		}
	}
}

func (h *holder) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, ok := s.(*stats.ConnEnd); ok {
		h.ended <- struct{}{}
	}
}

// gRPC repeats by itself a stream that wasn't processed, and when a write finds the repeated one ended as well, it hands out a
// bare io.EOF: of a stream that is the word for a good end.
func TestAnUnprocessedStreamOfWhichOnlyAWriteTellsIsTriedElsewhere(t *testing.T) {
	talk := func(t *testing.T, cc *grpc.ClientConn, _ *holder) (string, error) { return open(t, cc).say("x") }
	for name, row := range map[string]struct {
		early bool // the first try is refused before its message is written
		call  func(*testing.T, *grpc.ClientConn, *holder) (string, error)
	}{
		"call":   {false, func(t *testing.T, cc *grpc.ClientConn, _ *holder) (string, error) { return say(t, cc) }},
		"stream": {false, talk},
		"stream that is written to late": {true, func(t *testing.T, cc *grpc.ClientConn, h *holder) (string, error) {
			s := open(t, cc)
			h.ended <- <-h.ended
			return s.say("x")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var requests atomic.Int64
			header := func(f *frames) {
				if requests.Add(1) == 2 || row.early {
					f.goAway()
				}
			}
			message := func(f *frames) {
				if requests.Load() == 1 {
					f.goAway()
				}
			}
			first, second := newFramesAt(t, header, message), newFramesAt(t, header, message)
			addr, _ := serve(t, &parrot{name: "c"})
			w.Set("orders", fake.Up("orders", "a", first), fake.Up("orders", "b", second), fake.Spare("orders", "c", addr))
			h := &holder{ended: make(chan struct{}, 16)}
			if got, err := row.call(t, w.client(Config{}, "orders", grpc.WithStatsHandler(h)), h); err != nil || got[:1] != "c" {
				t.Errorf("%q, %v", got, err)
			}
			if n := requests.Load(); n != 2 {
				t.Errorf("%d requests went astray, want 2", n)
			}
		})
	}
}

package eidergrpc

import (
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/eiderhq/eider/internal/fake"
	"github.com/eiderhq/eider/meter"
	"github.com/eiderhq/eider/registry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = fake.Patience

// world is a node that says what the test wants, and what the handle on it counts.
type world struct {
	*fake.Node
	t      testing.TB
	counts meter.Meter
}

func newWorld(t testing.TB) *world {
	w := &world{t: t}
	w.Node = fake.New(t, registry.Config{Meter: &w.counts})
	return w
}

// client returns a channel to a service.
func (w *world) client(cfg Config, service string, opts ...grpc.DialOption) *grpc.ClientConn {
	w.t.Helper()
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = patience // on a busy machine a connection may take more than the default's second
	}
	cc, err := cfg.NewClient("eider:///"+service, w.Handle, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { cc.Close() })
	return cc
}

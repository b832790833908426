package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/eiderhq/eider/drain"
	"github.com/eiderhq/eider/eidergrpc"
	"github.com/eiderhq/eider/registry"
)

// serveGRPC is the process of a gRPC instance: one port is served by eidergrpc and listed, the other, which the ready
// line names, by plain grpc-go. Both serve the health service.
func serveGRPC() error {
	ours, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	theirs, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	plain := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(plain, health.NewServer())
	served := make(chan error, 1)
	go func() { served <- plain.Serve(theirs) }()
	defer func() {
		plain.Stop()
		<-served
	}()
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	go func() {
		waitForEnd()
		leave()
	}()
	reg := registry.Open(registry.Config{Caller: "instance", Logger: quiet()})
	defer reg.Close()
	said := false
	_, err = eidergrpc.Serve(ctx, eidergrpc.NewServer(), drain.Config{Registry: reg, Listener: ours, Logger: quiet(),
		Service: os.Getenv(serviceVariable), ID: os.Getenv(idVariable), Listed: func(s registry.State) {
			if s.Listed && !said {
				said = true
				fmt.Fprintln(os.Stderr, "ready "+theirs.Addr().String())
			}
		}})
	return err
}

// grpcCalls is a node, an instance, and a channel of each kind to it.
type grpcCalls struct {
	node     *node
	instance *process
	reg      *registry.Registry
	ours     *grpc.ClientConn
	plain    *grpc.ClientConn
}

func openGRPC() (c *grpcCalls, err error) {
	c = &grpcCalls{}
	defer func() {
		if err != nil {
			c.Close()
			c = nil
		}
	}()
	if c.node, err = startNode(); err != nil {
		return nil, err
	}
	if c.instance, err = self("grpc", "EIDER_ADDR="+c.node.grpc, serviceVariable+"=orders", idVariable+"=1"); err != nil {
		return nil, err
	}
	c.reg = registry.Open(registry.Config{Addr: c.node.grpc, Caller: "checkout", Logger: quiet()})
	creds := grpc.WithTransportCredentials(insecure.NewCredentials())
	if c.ours, err = eidergrpc.NewClient("eider:///orders", c.reg, creds); err != nil {
		return nil, err
	}
	c.plain, err = grpc.NewClient("passthrough:///"+c.instance.addr, creds,
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`))
	return c, err
}

func (c *grpcCalls) Close() {
	for _, cc := range []*grpc.ClientConn{c.ours, c.plain} {
		if cc != nil {
			_ = cc.Close()
		}
	}
	if c.reg != nil {
		_ = c.reg.Close()
	}
	if c.instance != nil {
		c.instance.stop()
	}
	if c.node != nil {
		c.node.stop()
	}
}

// Ours and Plain make n calls, one after another, and return what one took.
func (c *grpcCalls) Ours(n int) (time.Duration, error)  { return checks(c.ours, n) }
func (c *grpcCalls) Plain(n int) (time.Duration, error) { return checks(c.plain, n) }

func checks(cc *grpc.ClientConn, n int) (time.Duration, error) {
	health := grpc_health_v1.NewHealthClient(cc)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	start := time.Now()
	for range n {
		r, err := health.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		if err == nil && r.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
			err = errors.New(r.GetStatus().String())
		}
		if err != nil {
			return 0, err
		}
	}
	return time.Since(start) / time.Duration(n), nil
}

func grpcTime(s Size) (Result, error) {
	c, err := openGRPC()
	if err != nil {
		return Result{}, err
	}
	defer c.Close()
	return compare(s.Rounds, contender{do: batched(c.Ours)}, contender{do: batched(c.Plain)})
}

// grpcPick runs the benchmark that stands beside the picker. round_robin's allocates nothing.
func grpcPick(Size) (Result, error) {
	root, err := root()
	if err != nil {
		return Result{}, err
	}
	cmd := exec.Command("go", "test", "-count=1", "-run", "^$", "-bench", "^BenchmarkPick$", "-benchtime", "200ms", "-benchmem", "./eidergrpc")
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil {
		return Result{}, fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	n, err := least(string(out), `(\d+) allocs/op`)
	return Result{Eider: Figure{n, "allocations"}, Peer: Figure{1, "allocations"}}, err
}

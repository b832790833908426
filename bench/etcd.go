package bench

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// serveEtcd is a real etcd, one member, fsync off: the fastest that it can be.
func serveEtcd() error {
	dir, err := os.MkdirTemp("", "eider-bench-etcd-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cfg := embed.NewConfig()
	cfg.Dir = dir
	cfg.UnsafeNoFsync = true
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	any0 := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	cfg.ListenClientUrls, cfg.ListenPeerUrls = []url.URL{any0}, []url.URL{any0}
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	defer e.Close()
	<-e.Server.ReadyNotify()
	fmt.Fprintln(os.Stderr, "ready "+e.Clients[0].Addr().String())
	waitForEnd()
	return nil
}

// etcdFan is 1,000 etcd clients that watch one key, a connection each.
type etcdFan struct {
	server  *process
	clients []*clientv3.Client
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	finish  finish
	n       int
}

func openEtcd(watchers int) (f *etcdFan, err error) {
	f = &etcdFan{}
	if f.server, err = self("etcd"); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	for range watchers + 1 { // the first one puts
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{f.server.addr}, Logger: zap.NewNop()})
		if err != nil {
			f.Close()
			return nil, err
		}
		f.clients = append(f.clients, c)
	}
	for _, c := range f.clients[1:] {
		created := make(chan struct{})
		f.wg.Go(func() { f.watch(ctx, c, created) })
		<-created
	}
	return f, nil
}

func (f *etcdFan) watch(ctx context.Context, c *clientv3.Client, created chan<- struct{}) {
	for response := range c.Watch(ctx, "orders/1", clientv3.WithCreatedNotify()) {
		if response.Created {
			close(created)
		}
		for range response.Events {
			f.finish.one()
		}
	}
}

// Change puts once and returns when the last watcher has it.
func (f *etcdFan) Change() error {
	f.finish.expect(len(f.clients) - 1)
	f.n++
	if _, err := f.clients[0].Put(context.Background(), "orders/1", `{"address":"127.0.0.1:8080","status":"UP","version":`+strconv.Itoa(f.n)+`}`); err != nil {
		return err
	}
	return f.finish.wait()
}

func (f *etcdFan) cpus() (cpus, error) { return f.server.cpus() }

// Close ends clients and server.
func (f *etcdFan) Close() {
	if f.cancel != nil {
		f.cancel()
	}
	for _, c := range f.clients {
		_ = c.Close()
	}
	f.wg.Wait()
	f.server.stop()
}

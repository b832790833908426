package bench

import (
	"net"
	"sync"
	"time"
)

// far is a way to a server that takes time: what comes in goes on later by so much, in either direction.
type far struct {
	listener net.Listener
	to       string
	each     time.Duration
	wg       sync.WaitGroup
	mu       sync.Mutex
	conns    []net.Conn
}

func openFar(to string, each time.Duration) (*far, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &far{listener: l, to: to, each: each}
	f.wg.Go(f.serve)
	return f, nil
}

func (f *far) addr() string { return f.listener.Addr().String() }

func (f *far) serve() {
	for {
		near, err := f.listener.Accept()
		if err != nil {
			return
		}
		distant, err := net.Dial("tcp", f.to)
		if err != nil {
			_ = near.Close()
			continue
		}
		f.mu.Lock()
		f.conns = append(f.conns, near, distant)
		f.mu.Unlock()
		f.wg.Go(func() { f.carry(near, distant) })
		f.wg.Go(func() { f.carry(distant, near) })
	}
}

// carry reads at once and writes when it is time, in order, so that one that waits delays none that follows.
func (f *far) carry(from, to net.Conn) {
	type parcel struct {
		bytes []byte
		due   time.Time
	}
	onTheWay := make(chan parcel, 1024)
	f.wg.Go(func() {
		for p := range onTheWay {
			<-time.After(time.Until(p.due))
			_, _ = to.Write(p.bytes)
		}
		_ = to.Close()
	})
	defer close(onTheWay)
	for buffer := make([]byte, 64<<10); ; {
		n, err := from.Read(buffer)
		if n > 0 {
			onTheWay <- parcel{append([]byte(nil), buffer[:n]...), time.Now().Add(f.each)}
		}
		if err != nil {
			return
		}
	}
}

// Close ends all that goes this way.
func (f *far) Close() {
	_ = f.listener.Close()
	f.mu.Lock()
	for _, c := range f.conns {
		_ = c.Close()
	}
	f.mu.Unlock()
	f.wg.Wait()
}

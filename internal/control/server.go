package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"
)

// Server answers those who ask. Make it with [Listen].
type Server struct {
	dep  Departure
	log  *slog.Logger
	self int             // the user who may ask, beside root
	unix *narrow         // nil: off
	tcp  *narrow         // likewise
	hook *http.Server    // on tcp
	over context.Context // ends when Close begins: nobody waits for longer
	end  context.CancelFunc

	mu      sync.Mutex
	conns   map[net.Conn]struct{} // of the socket
	said    time.Time             // when a refusal was logged last
	refused int                   // those since
	running sync.WaitGroup        // what Run started
	began   bool
	asked   bool // somebody who may has asked
}

// Listen listens on an abstract socket of that name, and for GET /leave at the address hook, as in ":8764"; "" means
// not to, of each. Nobody is answered before Run. The errors are for people: they say what to set.
func Listen(name, hook string, d Departure, log *slog.Logger) (*Server, error) {
	s := &Server{dep: d, log: log, self: os.Geteuid(), conns: make(map[net.Conn]struct{})}
	s.over, s.end = context.WithCancel(context.Background())
	var faults []error
	if name != "" {
		ln, err := listenSocket(name)
		if err != nil {
			faults = append(faults, err)
		} else {
			s.unix = narrowed(ln)
		}
	}
	if hook != "" {
		ln, err := net.Listen("tcp", hook)
		if err != nil {
			faults = append(faults, unhooked(hook, err))
		} else {
			s.tcp = narrowed(ln)
		}
	}
	if err := errors.Join(faults...); err != nil {
		s.Close()
		return nil, err
	}
	s.hook = &http.Server{Handler: http.HandlerFunc(s.get), ReadHeaderTimeout: speakWithin,
		MaxHeaderBytes: 4096, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	s.hook.SetKeepAlivesEnabled(false)
	return s, nil
}

// unhooked explains why the hook's address can't be listened at.
func unhooked(hook string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("hook %.60q: %w; another process, or another drain of this one, listens there: set another port, and the pod's preStop to it", hook, err)
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("hook %.60q: %w; set it to :PORT with a port above 1023, as in :8764", hook, err)
	}
	return fmt.Errorf("hook %.60q: %w; it must be :PORT or host:port, as in :8764", hook, err)
}

// Addr is where GET /leave is answered; nil if it isn't.
func (s *Server) Addr() net.Addr {
	if s.tcp == nil {
		return nil
	}
	return s.tcp.Addr()
}

// Run answers until ctx ends, Close is called or a listener fails, and returns when all that it started has ended.
func (s *Server) Run(ctx context.Context) error {
	ended := make(chan error, 2)
	s.mu.Lock()
	if s.over.Err() != nil {
		s.mu.Unlock()
		return nil
	}
	s.began = true
	if s.unix != nil {
		s.running.Go(func() { ended <- s.accept() })
	}
	if s.tcp != nil {
		s.running.Go(func() { ended <- s.hook.Serve(s.tcp) })
	}
	s.mu.Unlock()
	var err error
	select {
	case <-ctx.Done():
	case <-s.over.Done():
	case err = <-ended:
	}
	if s.over.Err() != nil {
		err = nil
	}
	s.Close()
	return err
}

// Close takes no more questions, gives those who wait the answer as it stands, waits a second at most for them to take
// it, and ends what is left. It may be called more than once, and without Run.
//
// A hook's process that has heard the answer needs a moment to end: if this one is the first of its namespace of
// processes, the hook would be killed with it, and count as failed.
func (s *Server) Close() {
	s.mu.Lock()
	s.end()
	began, asked := s.began, s.asked
	s.mu.Unlock()
	if s.unix != nil {
		s.unix.Close()
	}
	if s.tcp != nil {
		s.tcp.Close()
	}
	if !began {
		return
	}
	patience := time.AfterFunc(hangUp, s.cut)
	defer patience.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), hangUp)
	defer cancel()
	s.hook.Shutdown(ctx)
	s.hook.Close()
	s.running.Wait()
	if asked {
		<-time.After(parting)
	}
}

// cut ends the connections of the socket.
func (s *Server) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for nc := range s.conns {
		nc.Close()
	}
}

// accept is the accept loop of the socket.
func (s *Server) accept() error {
	for {
		nc, err := s.unix.Accept()
		if err != nil {
			if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ECONNABORTED) {
				select {
				case <-time.After(100 * time.Millisecond): // out of files, say: no loop
					continue
				case <-s.over.Done():
				}
			}
			return err
		}
		s.mu.Lock()
		s.conns[nc] = struct{}{}
		s.mu.Unlock()
		s.running.Go(func() {
			defer func() {
				nc.Close()
				s.mu.Lock()
				delete(s.conns, nc)
				s.mu.Unlock()
			}()
			s.attend(nc)
		})
	}
}

// attend answers one question.
func (s *Server) attend(nc net.Conn) {
	who, err := peer(nc)
	if err == nil && who.uid != s.self && who.uid != 0 {
		err = fmt.Errorf("user %d may not have a process of user %d leave: run the hook as its user", who.uid, s.self)
	}
	if err != nil {
		s.refuse(who, err)
		answer(nc, reply{Error: err.Error(), Denied: true})
		return
	}
	nc.SetDeadline(time.Now().Add(speakWithin))
	stop := context.AfterFunc(s.over, func() { nc.SetReadDeadline(time.Unix(1, 0)) }) // who hasn't asked by now is too late
	in := bufio.NewReaderSize(io.LimitReader(nc, maxQuestion+1), 2*maxQuestion)
	line, err := in.ReadSlice('\n')
	stop()
	if err != nil && (!errors.Is(err, io.EOF) || len(line) <= maxQuestion) { // neither a line nor too long
		return
	}
	q, err := parse(line)
	if err != nil {
		answer(nc, reply{Error: err.Error()})
		return
	}
	s.leave(who)
	gone := make(chan struct{})
	nc.SetDeadline(time.Time{})
	s.running.Go(func() { // it says nothing more, so this reads its end
		defer close(gone)
		io.Copy(io.Discard, io.LimitReader(nc, maxQuestion))
	})
	if q.Wait {
		select {
		case <-s.dep.Left():
		case <-s.over.Done():
		case <-gone:
			return
		}
	}
	now := s.dep.Outcome()
	answer(nc, reply{Answer: &now})
	t := time.NewTimer(hangUp) // it has read it when it hangs up
	defer t.Stop()
	select {
	case <-gone:
	case <-t.C:
	}
}

// leave begins the departure.
func (s *Server) leave(who asker) {
	s.mu.Lock()
	again := s.asked
	s.asked = true
	s.mu.Unlock()
	if !again {
		s.log.Info("a hook asks this process to leave", "by", who.String())
	}
	s.dep.Leave()
}

// refuse says in the log who was sent away, now and then.
func (s *Server) refuse(who asker, err error) {
	s.mu.Lock()
	s.refused++
	n, now := s.refused, time.Now()
	if !s.said.IsZero() && now.Sub(s.said) < sayEvery {
		s.mu.Unlock()
		return
	}
	s.said, s.refused = now, 0
	s.mu.Unlock()
	s.log.Warn("somebody who may not asks this process to leave", "by", who.String(), "times", n, "err", err)
}

func answer(nc net.Conn, r reply) {
	nc.SetWriteDeadline(time.Now().Add(speakWithin))
	text, err := json.Marshal(r)
	if err == nil {
		nc.Write(append(text, '\n'))
	}
}

// get answers the hook over HTTP. It does only this: whoever reaches the address can have the process leave, and
// nothing else.
func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	defer func() { // for whoever sends a body slowly, or doesn't take his answer
		until, rc := time.Now().Add(speakWithin), http.NewResponseController(w)
		_, _ = rc.SetReadDeadline(until), rc.SetWriteDeadline(until)
	}()
	switch wait := r.URL.Query()["wait"]; {
	case r.URL.Path != "/leave":
		http.Error(w, "there is only GET /leave here", http.StatusNotFound)
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "use GET /leave: it is what a Kubernetes hook can send", http.StatusMethodNotAllowed)
	case len(wait) > 1 || len(wait) == 1 && wait[0] != "0" && wait[0] != "1":
		http.Error(w, "wait must be 0, to be answered at once, or 1, when the pause is over, as without it", http.StatusBadRequest)
	default:
		s.leave(asker{remote: r.RemoteAddr})
		if len(wait) == 0 || wait[0] == "1" {
			select {
			case <-s.dep.Left():
			case <-s.over.Done():
			case <-r.Context().Done():
				return
			}
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(s.dep.Outcome())
	}
}

// asker is who asks.
type asker struct {
	uid, pid int
	remote   string // over HTTP
}

func (a asker) String() string {
	if a.remote != "" {
		return a.remote
	}
	return fmt.Sprintf("process %d of user %d", a.pid, a.uid)
}

// narrow is a listener with so many connections at once; whoever comes then waits in the accept queue.
type narrow struct {
	net.Listener
	slots chan struct{}
	over  chan struct{}
	once  sync.Once
}

func narrowed(ln net.Listener) *narrow {
	return &narrow{Listener: ln, slots: make(chan struct{}, maxConns), over: make(chan struct{})}
}

// Accept waits for a slot, and then for a connection.
func (n *narrow) Accept() (net.Conn, error) {
	select {
	case n.slots <- struct{}{}:
	case <-n.over:
		return nil, net.ErrClosed
	}
	nc, err := n.Listener.Accept()
	if err != nil {
		<-n.slots
		return nil, err
	}
	return &slot{Conn: nc, free: sync.OnceFunc(func() { <-n.slots })}, nil
}

// Close ends the listener.
func (n *narrow) Close() error {
	n.once.Do(func() { close(n.over) })
	return n.Listener.Close()
}

// slot is a connection that takes one of the slots.
type slot struct {
	net.Conn
	free func()
}

// Close frees the slot.
func (s *slot) Close() error {
	defer s.free()
	return s.Conn.Close()
}

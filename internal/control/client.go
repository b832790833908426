package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// Leave has the process that listens on the abstract socket of that name leave, and returns how it stands: at once, or
// with wait when its pause is over. It may be asked again at any time. ctx bounds it; the error is ErrNobody if no
// process listens there, ErrDenied if it is another user's, or what ended the connection before an answer.
func Leave(ctx context.Context, name string, wait bool) (Answer, error) {
	addr, err := socket(name)
	if err != nil {
		return Answer{}, err
	}
	nc, err := dialSocket(ctx, addr)
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT) {
		return Answer{}, fmt.Errorf("%s: %w", addr, ErrNobody)
	}
	if err != nil {
		return Answer{}, fmt.Errorf("%s: %w", addr, err)
	}
	defer nc.Close()
	stop := context.AfterFunc(ctx, func() { nc.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	// Anybody of the network namespace may have taken the name: his word that the pause is over would end it.
	if who, err := peer(nc); err != nil {
		return Answer{}, fmt.Errorf("%s: %w", addr, err)
	} else if me := os.Geteuid(); who.uid != me && who.uid != 0 && me != 0 {
		return Answer{}, fmt.Errorf("%s: %w: user %d listens there, and this is user %d: run the hook as the program's user", addr, ErrDenied, who.uid, me)
	}
	text, err := json.Marshal(question{Do: "leave", Wait: wait})
	if err != nil {
		return Answer{}, err
	}
	if _, err = nc.Write(append(text, '\n')); err != nil && !errors.Is(err, syscall.EPIPE) { // it may have said why
		return Answer{}, ended(ctx, addr, err)
	}
	line, err := bufio.NewReader(io.LimitReader(nc, maxAnswer)).ReadBytes('\n')
	if err != nil {
		return Answer{}, ended(ctx, addr, err)
	}
	a, err := read(line)
	if err != nil {
		return Answer{}, fmt.Errorf("%s: %w", addr, err)
	}
	return a, nil
}

// ended explains a connection that ended before the answer.
func ended(ctx context.Context, addr string, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: no answer in time: %w", addr, ctx.Err())
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("%s: the process ended before it answered: %w", addr, err)
	}
	return fmt.Errorf("%s: %w", addr, err)
}

// dialSocket connects.
func dialSocket(ctx context.Context, addr string) (net.Conn, error) {
	if err := supported(); err != nil {
		return nil, err
	}
	return new(net.Dialer).DialContext(ctx, "unix", addr)
}

// listenSocket listens.
func listenSocket(name string) (net.Listener, error) {
	addr, err := socket(name)
	if err != nil {
		return nil, err
	}
	if err = supported(); err != nil {
		return nil, err
	}
	ln, err := net.Listen("unix", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("control %s: %w; another process of this network namespace has that name, or another drain of this one: set a name of its own", addr, err)
	}
	if err != nil {
		return nil, fmt.Errorf("control %s: %w", addr, err)
	}
	return ln, nil
}

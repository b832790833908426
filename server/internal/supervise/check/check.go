package check

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"

	"github.com/eiderhq/eider/server/internal/harmless"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// Check is one way to ask a program whether it can serve.
type Check interface {
	// Do asks once; nil means that it can. It ends with ctx, and leaves nothing behind: no connection, no process.
	Do(ctx context.Context) error
	String() string
}

const (
	agent   = "eider-check/1" // the User-Agent of a check
	maxHead = 64 << 10        // bytes of an answer's headers
	maxBody = 64 << 10        // bytes of an answer's body that are read
)

// connects is a program that accepts a connection. It is the weakest check: the kernel accepts for a program that
// hangs.
type connects struct{ to address }

func (c connects) String() string { return "tcp://" + c.to.String() }

// Do implements Check.
func (c connects) Do(ctx context.Context) error {
	nc, err := c.to.dial(ctx)
	if err != nil {
		return plainly(err)
	}
	return nc.Close()
}

// answers is a program that answers a GET with 2xx. Its certificate isn't held against a name, which a loopback
// address hasn't: what is asked is whether it answers, and nothing secret is sent.
type answers struct {
	to  address
	url *url.URL
}

func (a answers) String() string { return a.url.Redacted() }

// Do implements Check.
func (a answers) Do(ctx context.Context) error {
	nc, err := a.connect(ctx)
	if err != nil {
		return plainly(err)
	}
	defer context.AfterFunc(ctx, func() { nc.Close() })()
	defer nc.Close()
	if err := a.request().Write(nc); err != nil {
		return unanswered(err)
	}
	// By hand, since net/http's client keeps connections, and takes one whose server speaks first for broken.
	bounded := &io.LimitedReader{R: nc, N: maxHead}
	answer, err := read(bufio.NewReader(bounded))
	switch {
	case err != nil && bounded.N <= 0:
		return fmt.Errorf("the headers of its answer don't end within %d KiB", maxHead>>10)
	case err != nil:
		return unanswered(err)
	}
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return refusal(answer)
	}
	bounded.N = maxBody
	// A page without an end is answered all the same.
	if _, err := io.Copy(io.Discard, answer.Body); err != nil && bounded.N > 0 {
		return fmt.Errorf("it answered %d, but the rest of the answer didn't come: %w", answer.StatusCode, err)
	}
	return nil
}

func (a answers) connect(ctx context.Context) (net.Conn, error) {
	nc, err := a.to.dial(ctx)
	if err != nil || a.url.Scheme != "https" {
		return nc, err
	}
	secure := tls.Client(nc, &tls.Config{InsecureSkipVerify: true, ServerName: a.name()})
	if err := secure.HandshakeContext(ctx); err != nil {
		nc.Close()
		return nil, err
	}
	return secure, nil
}

func (a answers) request() *http.Request {
	to := *a.url
	to.Host = net.JoinHostPort(a.name(), a.to.port)
	return &http.Request{Method: http.MethodGet, URL: &to, Host: to.Host, Close: true, Header: http.Header{"User-Agent": {agent}}}
}

func (a answers) name() string {
	if a.to.host == "" {
		return "localhost"
	}
	return a.to.host
}

// read reads an answer, past those that only announce it.
func read(from *bufio.Reader) (*http.Response, error) {
	for {
		answer, err := http.ReadResponse(from, nil)
		if err != nil || answer.StatusCode/100 != 1 || answer.StatusCode == http.StatusSwitchingProtocols {
			return answer, err
		}
	}
}

// unanswered says the same of each way in which a connection can end.
func unanswered(err error) error {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, end) {
			return errors.New("it closed the connection before it had answered")
		}
	}
	return err
}

// refusal says what an answer is that isn't 2xx. A redirect isn't followed: that a login page or another host
// answers says nothing about this program.
func refusal(answer *http.Response) error {
	if to := answer.Header.Get("Location"); to != "" && answer.StatusCode/100 == 3 {
		return fmt.Errorf("it answered %d, a redirect to %.100q, which is not followed: name the path that answers 2xx itself", answer.StatusCode, to)
	}
	return fmt.Errorf("it answered %d, not 2xx", answer.StatusCode)
}

// remote is a program that says SERVING by grpc.health.v1.
type remote struct {
	to      address
	service string // "" is the whole server
}

func (r remote) String() string {
	if r.service == "" {
		return "grpc://" + r.to.String()
	}
	return "grpc://" + r.to.String() + "/" + r.service
}

// Do implements Check.
func (r remote) Do(ctx context.Context) error {
	authority := r.to.String()
	if r.to.host == "" {
		authority = net.JoinHostPort("localhost", r.to.port)
	}
	cc, err := grpc.NewClient("passthrough:///"+r.to.String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return r.to.dial(ctx) }),
		grpc.WithAuthority(authority), grpc.WithUserAgent(agent), grpc.WithNoProxy(), grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(),
		grpc.WithMaxHeaderListSize(maxHead), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxBody)))
	if err != nil {
		return err
	}
	defer cc.Close()
	answer, err := healthpb.NewHealthClient(cc).Check(ctx, &healthpb.HealthCheckRequest{Service: r.service})
	switch s := status.Convert(err); s.Code() {
	case codes.OK:
	case codes.Unimplemented:
		return errors.New("it doesn't serve grpc.health.v1.Health: add that service to it, or check with tcp://" + r.to.String())
	case codes.NotFound:
		return fmt.Errorf("its health service doesn't know the service %.100q", r.service)
	default:
		return fmt.Errorf("%s: %.200s", s.Code(), harmless.Text(s.Message()))
	}
	if answer.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		return errors.New("it says of itself " + harmless.Text(answer.GetStatus().String()))
	}
	return nil
}

package cli

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/eiderhq/eider"
)

// Bounds on what a command waits for and reads.
const (
	dialTimeout   = 2 * time.Second
	answerTimeout = 10 * time.Second // from the request to the header of the answer; and for a handshake, which needs both processors
	maxAnswer     = 64 << 20         // bytes of one answer
	pageSize      = "5000"           // items asked for at a time
)

// client asks one registry's HTTP port.
type client struct {
	base  *url.URL
	token string // "" shows none
	http  *http.Client
}

// client returns the one that --http, EIDER_HTTP or the default names. It does no I/O.
func (a *app) client() (*client, error) {
	source, text := "--http", a.http
	if text == "" {
		source, text = "EIDER_HTTP", a.Getenv("EIDER_HTTP")
	}
	proof, err := a.proof()
	if err != nil {
		return nil, err
	}
	base, err := parseBase(cmp.Or(text, "127.0.0.1:8761"), proof.tls)
	if err != nil {
		return nil, usage("%s %q: %w", source, text, err)
	}
	if err := proof.mayBeShown(base); err != nil {
		return nil, err
	}
	dial := (&net.Dialer{Timeout: dialTimeout}).DialContext
	if a.Dial != nil {
		dial = func(ctx context.Context, _, address string) (net.Conn, error) { return a.Dial(ctx, address) }
	}
	return &client{base, proof.token, &http.Client{
		// No proxy: a registry is near, and a proxy would ask under a name that the node doesn't answer to.
		Transport:     transport(dial, proof.tls),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

func transport(dial func(ctx context.Context, network, address string) (net.Conn, error), secured *tls.Config) *http.Transport {
	return &http.Transport{DialContext: dial, TLSHandshakeTimeout: answerTimeout, TLSClientConfig: secured}
}

// asking is how a command runs that asks the registry.
func (a *app) asking(do func(cmd *cobra.Command, c *client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.client()
		if err != nil {
			return err
		}
		defer c.close()
		return do(cmd, c, args)
	}
}

// hint asks for what the shell is to offer; false if there is no answer within a second.
func (a *app) hint(cmd *cobra.Command, path string, answer any) bool {
	ctx, cancel := context.WithTimeout(cmd.Context(), time.Second)
	defer cancel()
	c, err := a.client()
	if err != nil {
		return false
	}
	defer c.close()
	_, err = c.fetch(ctx, question{path: path, query: url.Values{"limit": {"1000"}}}, answer)
	return err == nil
}

// close ends idle connections, and with them their goroutines.
func (c *client) close() { c.http.CloseIdleConnections() }

// parseBase reads host:port or a URL without a path. Without a scheme it is https for whoever has something to
// check the registry by.
func parseBase(text string, secured *tls.Config) (*url.URL, error) {
	if !strings.Contains(text, "://") {
		scheme := "http://"
		if secured != nil {
			scheme = "https://"
		}
		text = scheme + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("must be host:port or a URL, as in 127.0.0.1:8761 or http://127.0.0.1:8761")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("has the scheme %q; it is http or https", u.Scheme)
	case u.Hostname() == "" || u.Port() == "":
		return nil, errors.New("must name a host and a port, as in 127.0.0.1:8761")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return nil, errors.New("must be a host and a port alone, without path, query or user")
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}

// question is one request: a GET, unless it says otherwise.
type question struct {
	method string // "" means GET; others change something, and are sent as JSON
	body   any    // nil: none
	path   string
	query  url.Values
	tag    string        // If-None-Match
	wait   time.Duration // how much longer than usual the answer may take
	id     string        // Last-Event-ID
	sse    bool
}

// request makes the request that asks it.
func (q *question) request(ctx context.Context, u string) (*http.Request, error) {
	var text []byte
	if q.body != nil {
		var err error
		if text, err = json.Marshal(q.body); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, cmp.Or(q.method, http.MethodGet), u, bytes.NewReader(text))
	if err == nil && q.method != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, err
}

// ask sends the question and returns the answer if it is 200 or 304. What it takes to reach a registry,
// and what a registry answers instead, becomes an error that says what to do next.
func (c *client) ask(ctx context.Context, q question) (*http.Response, error) {
	u := *c.base
	u.Path, u.RawQuery = q.path, q.query.Encode()
	ctx, cancel := context.WithCancelCause(ctx)
	req, err := q.request(ctx, u.String())
	if err != nil {
		cancel(nil)
		return nil, usage("%w", err)
	}
	for name, value := range map[string]string{"If-None-Match": q.tag, "Last-Event-ID": q.id} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	if q.sse {
		req.Header.Set("Accept", "text/event-stream")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	timer := time.AfterFunc(answerTimeout+q.wait, func() { cancel(errTooSlow) })
	resp, err := c.http.Do(req)
	if err != nil {
		timer.Stop()
		err = c.away(cmp.Or(context.Cause(ctx), err))
		cancel(nil)
		return nil, err
	}
	if q.sse {
		timer.Stop()
	}
	resp.Body = &body{Reader: io.LimitReader(resp.Body, limit(q)), Closer: resp.Body, end: func() { timer.Stop(); cancel(nil) }}
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusNotModified {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, c.refused(resp)
}

var (
	errTooSlow = errors.New("no answer in time")
	errTooSoon = errors.New("the registry doesn't wait for a change: is there a cache between?") // asking on at once would be polling
)

func limit(q question) int64 {
	if q.sse {
		return 1<<63 - 1
	}
	return maxAnswer
}

// body ends its request's timer and context when it is closed.
type body struct {
	io.Reader
	io.Closer
	end func()
}

// Close closes the answer.
func (b *body) Close() error {
	defer b.end()
	return b.Closer.Close()
}

// away explains why nobody answered.
func (c *client) away(err error) error {
	why := "no registry at %s: start one with `eider server`, or name one with --http or EIDER_HTTP"
	var dns *net.DNSError
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, errTooSlow):
		why = "%s takes connections and doesn't answer: is it a registry, and does its process run? (`eider server` has its HTTP port at 8761)"
	case errors.As(err, &dns):
		why = "%s can't be found: no address is known for that host; name another with --http or EIDER_HTTP"
	case errors.Is(err, syscall.ECONNREFUSED):
	case certificateFault(err):
		why = "%s isn't trusted: name the file of the authority that signed its certificate with --tls-ca or EIDER_CA"
		return &exit{exitUnreachable, fmt.Errorf(why+" (%w)", c.base, err)}
	case errors.Is(err, http.ErrSchemeMismatch):
		why = "%s speaks plain HTTP, as a registry does: write http:// in --http or EIDER_HTTP"
	case speaksFirst(err):
		why = "%s doesn't speak HTTP; is it a registry's gRPC port? Its HTTP port is asked, 8761 by default: name it with --http or EIDER_HTTP"
	default:
		return &exit{exitUnreachable, fmt.Errorf(why+" (%w)", c.base, err)}
	}
	return &exit{exitUnreachable, fmt.Errorf(why, c.base)}
}

// speaksFirst tells whether the other end answered what isn't HTTP, or before it was asked, as a gRPC port does.
// net/http has no words for it but these: the second is for bytes that came before the request was written.
func speaksFirst(err error) bool {
	text := err.Error()
	return strings.Contains(text, "malformed HTTP") || strings.Contains(text, "readLoopPeekFailLocked: %!w(<nil>)")
}

// refused turns an answer that isn't one into an error.
func (c *client) refused(resp *http.Response) error {
	var f struct {
		Error struct{ Kind, Message string }
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if strings.Contains(string(text), "HTTP request to an HTTPS server") { // net/http's word to who speaks in clear text
		return &exit{exitUnreachable, fmt.Errorf("%s speaks TLS: write https:// in --http or EIDER_HTTP, and name the authority of its certificate with --tls-ca or EIDER_CA", c.base)}
	}
	if err != nil || json.Unmarshal(text, &f) != nil || f.Error.Message == "" {
		return c.stranger(resp)
	}
	for kind := range codeOf {
		if kind.String() == f.Error.Kind {
			f.Error.Message = strings.Replace(f.Error.Message, "GET /v1/services lists", "`eider services` lists", 1)
			return eider.Errorf(kind, "", "%s", f.Error.Message)
		}
	}
	return &exit{exitFailure, errors.New(f.Error.Message)}
}

func (c *client) stranger(resp *http.Response) error {
	return &exit{exitUnreachable, fmt.Errorf("%s answers, but not as a registry does (%s, %s): name the HTTP port of `eider server` with --http or EIDER_HTTP",
		c.base, resp.Status, cmp.Or(resp.Header.Get("Content-Type"), "no type"))}
}

// fetch asks and decodes JSON; the response is returned for its headers, its body is closed. On 304 v is
// left alone.
func (c *client) fetch(ctx context.Context, q question, v any) (*http.Response, error) {
	resp, err := c.ask(ctx, q)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotModified {
		return resp, nil
	}
	if kind := resp.Header.Get("Content-Type"); !strings.HasPrefix(kind, "application/json") {
		return nil, c.stranger(resp)
	}
	if err := json.NewDecoder(resp.Body).Decode(v); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if net := net.Error(nil); errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &net) {
			return nil, &exit{exitUnreachable, fmt.Errorf("the registry at %s broke off in its answer (%w): does its process run?", c.base, err)}
		}
		return nil, &exit{exitFailure, fmt.Errorf("the answer of %s can't be read: %w; is it of another version than this command?", c.base, err)}
	}
	return resp, nil
}

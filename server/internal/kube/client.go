package kube

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// client asks the API for slices.
type client struct {
	base      url.URL // https://host:port
	namespace string
	tokenFile string
	http      http.Client
	address   atomic.Pointer[string] // this end of the last connection
}

// pageSize is how many slices are asked for at a time: each has 100 endpoints, as the controllers fill them.
const pageSize = "100"

// newClient trusts the certificates of caFile, and none else. It dials directly: a proxy of the environment is for the world
// outside, and would see the token.
func newClient(base url.URL, namespace, tokenFile, caFile string, dial func(ctx context.Context, network, address string) (net.Conn, error)) (*client, error) {
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("the API's certificates can't be read: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate that can be read; it is to hold those that the API's is signed with", caFile)
	}
	c := &client{base: base, namespace: namespace, tokenFile: tokenFile}
	if dial == nil {
		dial = (&net.Dialer{Timeout: time.Second}).DialContext
	}
	c.http.Transport = &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if err == nil {
				if at, err := netip.ParseAddrPort(conn.LocalAddr().String()); err == nil {
					ip := at.Addr().Unmap().WithZone("").String()
					c.address.Store(&ip)
				}
			}
			return conn, err
		},
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    answer,
		ResponseHeaderTimeout:  answer,
		MaxResponseHeaderBytes: 64 << 10,
		Protocols:              http1(), // of HTTP/2 a dead connection is used again for the next request; of this it is closed with what was asked on it
		DisableCompression:     true,    // what is asked for is small, and the API has better to do
	}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

func http1() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	return p
}

// local is this end of the connection to the API, "" before there was one: a pod's own address, unless something between
// changes it.
func (c *client) local() string {
	if ip := c.address.Load(); ip != nil {
		return *ip
	}
	return ""
}

// get asks; what isn't 200 is a trouble.
func (c *client) get(ctx context.Context, query url.Values) (*http.Response, error) {
	token, err := os.ReadFile(c.tokenFile) // each time: the kubelet writes a new one before the old one ends
	if err != nil {
		return nil, &trouble{kind: denied, err: fmt.Errorf("the service account's token can't be read: %w", err)}
	}
	bearer := strings.TrimSpace(string(token))
	if bearer == "" || strings.ContainsAny(bearer, "\r\n") {
		return nil, &trouble{kind: denied, err: fmt.Errorf("%s holds no token", c.tokenFile)}
	}
	at := c.base.JoinPath("apis", "discovery.k8s.io", "v1", "namespaces", c.namespace, "endpointslices")
	at.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+bearer)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "eider-leave")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	var said status
	if text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10)); err == nil {
		_ = json.Unmarshal(text, &said) // else there is no word that can be read
	}
	t := said.trouble(resp.StatusCode)
	if to := resp.Header.Get("Location"); to != "" {
		t.err = fmt.Errorf("%w (it sends to %.100q, which isn't followed: the token is for the API alone)", t.err, to)
	}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		t.after = min(time.Duration(seconds), 60) * time.Second
	}
	return nil, t
}

// list reads one page. It asks for what is true now, and not for what the API has in its cache: an answer from before would
// have the pod not ready that wasn't yet.
func (c *client) list(ctx context.Context, selector, next string, each func(slice) error) (page, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answer, errors.New("no whole answer within "+answer.String()))
	defer cancel()
	query := url.Values{"labelSelector": {selector}, "limit": {pageSize}}
	if next != "" {
		query.Set("continue", next)
	}
	resp, err := c.get(ctx, query)
	if err != nil {
		return page{}, cause(ctx, err)
	}
	defer resp.Body.Close()
	p, err := readList(resp.Body, ration, each)
	return p, reading(ctx, resp, err)
}

// watch reads events from a version on, until the API ends it. It is asked to within a minute, so that one which nobody
// reads any more goes.
func (c *client) watch(ctx context.Context, selector, version string, each func(event) error) error {
	resp, err := c.get(ctx, url.Values{"labelSelector": {selector}, "watch": {"1"}, "resourceVersion": {version},
		"allowWatchBookmarks": {"true"}, "timeoutSeconds": {"60"}})
	if err != nil {
		return cause(ctx, err)
	}
	defer resp.Body.Close()
	return reading(ctx, resp, readWatch(resp.Body, ration, each))
}

// cause says why a context has ended, where that is why.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// reading says what is wrong with an answer: a connection that breaks is away, what can't be read is strange.
func reading(ctx context.Context, resp *http.Response, err error) error {
	_, syntax := errors.AsType[*json.SyntaxError](err)
	_, shape := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case syntax || shape || errors.Is(err, errShape) || errors.Is(err, errRation):
		return &trouble{kind: strange, err: fmt.Errorf("the API's answer (%.60q) can't be read: %w", resp.Header.Get("Content-Type"), err)}
	}
	return err
}

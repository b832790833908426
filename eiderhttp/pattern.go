package eiderhttp

//lint:file-ignore SA1019 a user's Base may still set Dial and DialTLS, and gets what it says

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"
)

// newPattern makes what every instance's http.Transport is cloned from.
func (t *Transport) newPattern() *http.Transport {
	var p *http.Transport
	if t.Base == nil {
		p = &http.Transport{
			ForceAttemptHTTP2:     true,
			IdleConnTimeout:       90 * time.Second,
			ExpectContinueTimeout: time.Second,
			HTTP2:                 &http.HTTP2Config{SendPingTimeout: 5 * time.Second, PingTimeout: 10 * time.Second},
		}
	} else {
		p = t.Base.Clone()
		if p.Protocols == nil && t.Base.TLSNextProto["h2"] != nil {
			p.ForceAttemptHTTP2 = true // Base does HTTP/2 by itself, which a clone with a dialer of its own would not
		}
	}
	if p.MaxIdleConnsPerHost == 0 {
		p.MaxIdleConnsPerHost = 100
	}
	p.ResponseHeaderTimeout = 0 // a try bounds that itself, at half the price; see try.wrote
	if p.TLSHandshakeTimeout == 0 {
		p.TLSHandshakeTimeout = t.connectTimeout()
	}
	return p
}

func (t *Transport) headerTimeout() time.Duration {
	if t.HeaderTimeout == 0 && t.Base != nil && t.Base.ResponseHeaderTimeout > 0 {
		return t.Base.ResponseHeaderTimeout
	}
	return orDefault(t.HeaderTimeout, 30*time.Second)
}

func (t *Transport) connectTimeout() time.Duration { return orDefault(t.ConnectTimeout, time.Second) }

type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// dialer returns what Base dials with.
func (t *Transport) dialer() dialFunc {
	switch p := t.pattern; {
	case p.DialContext != nil:
		return p.DialContext
	case p.Dial != nil:
		return func(_ context.Context, network, addr string) (net.Conn, error) { return p.Dial(network, addr) }
	}
	return plainDialer.DialContext
}

// tlsDialer returns what Base dials TLS with, nil if net/http does that itself.
func (t *Transport) tlsDialer() dialFunc {
	switch p := t.pattern; {
	case p.DialTLSContext != nil:
		return p.DialTLSContext
	case p.DialTLS != nil:
		return func(_ context.Context, network, addr string) (net.Conn, error) { return p.DialTLS(network, addr) }
	}
	return nil
}

var plainDialer = net.Dialer{}

// newBase makes one instance's http.Transport.
func (t *Transport) newBase(in *instance) *http.Transport {
	b := t.pattern.Clone()
	b.Proxy = oneAttempt
	b.Dial, b.DialTLS = nil, nil // replaced by the two below
	b.DialContext = in.dialContext
	if by := t.tlsDialer(); by != nil {
		// net/http asks the very type of this connection for its protocol, so it isn't watched: a failure on it is
		// never known to have come before the first byte.
		b.DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			return in.dial(ctx, network, addr, by)
		}
	}
	return b
}

// mayHTTP2 tells whether connections of a scheme may speak HTTP/2, and surely whether they must.
func (t *Transport) mayHTTP2(scheme string) (may, surely bool) {
	p := t.pattern.Protocols
	if scheme == "http" {
		surely = p != nil && p.UnencryptedHTTP2() && !p.HTTP1()
		return surely, surely
	}
	return p == nil || p.HTTP2(), false
}

var errSilent = errors.New("a reused connection ended before the answer came")

// oneAttempt is every instance's Transport.Proxy. net/http asks it at the beginning of each attempt, also of the
// silent ones that it makes by itself when a reused connection fails; those are refused here, and made above, to
// somebody else. An attempt that never reached a connection may be repeated: HTTP/2 does so when many first
// requests share one.
func oneAttempt(req *http.Request) (*url.URL, error) {
	if y := tryOf(req.Context()); y != nil && !y.mayAttempt() {
		return nil, errSilent
	}
	return nil, nil
}

package eiderhttp

import (
	"net/http"
	"strings"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/roster"
)

// This file is what a Transport takes requests and answers for.

// following is how the roster of a service is set up.
func (t *Transport) following(companion func(eider.Instance) roster.Companion) roster.Config {
	return roster.Config{Companion: companion, Breaker: t.Breaker, NoBreakers: t.NoBreakers, NoFloor: t.NoFloor, Bulkhead: t.Bulkhead, Slow: t.Slow}
}

// repeatable tells whether a request may be sent again though it may have been processed.
func (t *Transport) repeatable(req *http.Request) bool {
	if t.Repeatable != nil {
		return t.Repeatable(req)
	}
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return len(req.Header["Idempotency-Key"]) > 0 || len(req.Header["X-Idempotency-Key"]) > 0
}

// failed tells whether an answer counts against the instance.
func (t *Transport) failed(resp *http.Response) bool { return failed(t.Failed, resp) }

func failed(by func(*http.Response) bool, resp *http.Response) bool {
	if by != nil {
		return by(resp)
	}
	return unserved(resp)
}

func unserved(resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// waits tells whether a request is meant to wait for its answer.
func (t *Transport) waits(req *http.Request) bool { return waits(t.Waits, req) }

func waits(by func(*http.Request) bool, req *http.Request) bool {
	if by != nil {
		return by(req)
	}
	return prefersToWait(req)
}

func prefersToWait(req *http.Request) bool {
	for _, line := range req.Header["Prefer"] {
		for pref := range strings.SplitSeq(line, ",") {
			pref, _, _ = strings.Cut(pref, ";")
			if name, _, ok := strings.Cut(pref, "="); ok && strings.EqualFold(strings.TrimSpace(name), "wait") {
				return true
			}
		}
	}
	return false
}

func (t *Transport) slow() time.Duration { return orDefault(t.Slow, time.Second) }

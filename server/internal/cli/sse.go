package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"
)

// Bounds on an event stream.
const (
	maxMessage = 1 << 20          // bytes of one line, and of one message's data
	silence    = 45 * time.Second // the registry says something every 15s; so much silence is a dead connection
)

// message is one message of an event stream.
type message struct {
	event string // "" is the usual kind
	data  string
}

// following is one event stream being read.
type following struct {
	id     string // the place after the last message
	lines  *bufio.Scanner
	close  func()
	alive  func() // tells that something was read
	source string
}

// follow opens the stream of events of a service, "" for all, from a place on, "" for as the query says.
func (c *client) follow(ctx context.Context, service string, query url.Values, place string) (*following, error) {
	if service != "" {
		query.Set("service", service)
	}
	ctx, cancel := context.WithCancel(ctx)
	resp, err := c.ask(ctx, question{path: "/v1/events", query: query, sse: true, id: place})
	if err != nil {
		cancel()
		return nil, err
	}
	if kind := resp.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		defer cancel()
		defer resp.Body.Close()
		return nil, c.stranger(resp)
	}
	timer := time.AfterFunc(silence, cancel)
	f := newFollowing(resp.Body, place)
	f.source = c.base.String()
	f.alive = func() { timer.Reset(silence) }
	f.close = func() {
		timer.Stop()
		cancel()
		resp.Body.Close()
	}
	return f, nil
}

func newFollowing(r io.Reader, place string) *following {
	f := &following{id: place, lines: bufio.NewScanner(r), alive: func() {}, close: func() {}, source: "the registry"}
	f.lines.Buffer(nil, maxMessage)
	return f
}

// next returns the next message; an error ends the stream.
func (f *following) next() (m message, err error) {
	var data []string
	size := 0
	for f.lines.Scan() {
		f.alive()
		line := strings.TrimSuffix(f.lines.Text(), "\r")
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && data == nil:
			m = message{} // without data it is no message, only a place
		case line == "":
			m.data = strings.Join(data, "\n")
			return m, nil
		case name == "id" && !strings.ContainsRune(value, 0):
			f.id = value
		case name == "event":
			m.event = value
		case name == "data":
			if size += len(value); size > maxMessage {
				return message{}, &exit{exitFailure, fmt.Errorf("%s sends an event of more than %d bytes", f.source, maxMessage)}
			}
			data = append(data, value)
		}
	}
	return message{}, &exit{exitUnreachable, fmt.Errorf("the registry at %s has ended the stream", f.source)}
}

package kubetest

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
)

// Server is an API server. Its methods may be called from any goroutine.
type Server struct {
	Namespace string

	mu        sync.Mutex
	objects   map[string]object
	version   int
	history   []change
	forgotten int // changes up to this version
	changed   chan struct{}
	token     string
	denied    bool
	asStatus  bool
	piece     int
	drops     int
	marks     int // bookmarks so far
	requests  []string
	answer    func(http.ResponseWriter, *http.Request) bool

	ca     []byte
	server http.Server
}

// object is a slice as it is stored.
type object struct {
	labels map[string]string
	body   map[string]any
}

// change is one of the history.
type change struct {
	version int
	name    string
	was, is *object // nil: there was, or is, none
}

// New returns a server for a namespace, whose certificate is for host.
func New(namespace, host, token string) (*Server, error) {
	s := &Server{Namespace: namespace, token: token, version: 100, forgotten: 100, objects: map[string]object{}, changed: make(chan struct{})}
	ca, cert, err := certify(host)
	if err != nil {
		return nil, err
	}
	s.ca = ca
	s.server = http.Server{Handler: http.HandlerFunc(s.serve), TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}}}
	s.server.ErrorLog = quietLog()
	return s, nil
}

// Serve serves until Close.
func (s *Server) Serve(lis net.Listener) error { return s.server.ServeTLS(lis, "", "") }

// Close ends it at once.
func (s *Server) Close() error { return s.server.Close() }

// CA is what a client is to trust, in PEM.
func (s *Server) CA() []byte { return s.ca }

// Slice is an EndpointSlice.
type Slice struct {
	Name, Service string // Service "" means none: the label is missing
	Endpoints     []Endpoint
}

// Endpoint is one of a slice's. nil conditions are left out.
type Endpoint struct {
	Pod                         string // "" means that it names no pod
	Address                     string
	Ready, Serving, Terminating *bool
}

// Put writes a slice, as a controller would.
func (s *Server) Put(slice Slice) {
	endpoints := make([]any, len(slice.Endpoints))
	for i, e := range slice.Endpoints {
		conditions := map[string]any{}
		for name, value := range map[string]*bool{"ready": e.Ready, "serving": e.Serving, "terminating": e.Terminating} {
			if value != nil {
				conditions[name] = *value
			}
		}
		endpoint := map[string]any{"addresses": []any{e.Address}, "conditions": conditions, "nodeName": "node-1", "zone": "a"}
		if e.Pod != "" {
			endpoint["targetRef"] = map[string]any{"kind": "Pod", "namespace": s.Namespace, "name": e.Pod, "uid": "0f7c"}
		}
		endpoints[i] = endpoint
	}
	labels := map[string]string{"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}
	if slice.Service != "" {
		labels["kubernetes.io/service-name"] = slice.Service
	}
	o := object{labels: labels, body: map[string]any{
		"kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", "addressType": "IPv4", "endpoints": endpoints,
		"ports": []any{map[string]any{"name": "http", "port": 8080, "protocol": "TCP"}},
	}}
	s.write(slice.Name, &o)
}

// Delete takes a slice away.
func (s *Server) Delete(name string) { s.write(name, nil) }

func (s *Server) write(name string, is *object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := change{name: name, is: is}
	if was, ok := s.objects[name]; ok {
		c.was = &was
	} else if is == nil {
		return
	}
	s.version++
	c.version = s.version
	if is == nil {
		delete(s.objects, name)
		gone := *c.was // the last state of what is deleted has the version of its end
		c.was = &gone
		c.was.body = clone(gone.body)
		c.was.body["metadata"] = metadata(s.Namespace, name, c.version, gone.labels)
	} else {
		is.body["metadata"] = metadata(s.Namespace, name, c.version, is.labels)
		s.objects[name] = *is
	}
	s.history = append(s.history, c)
	s.wake()
}

func metadata(namespace, name string, version int, labels map[string]string) map[string]any {
	return map[string]any{"name": name, "namespace": namespace, "uid": "77e1-" + name, "resourceVersion": fmt.Sprint(version),
		"generation": version, "creationTimestamp": "2026-01-01T00:00:00Z", "labels": labels,
		"managedFields": []any{map[string]any{"manager": "kube-controller-manager", "operation": "Update"}}}
}

func clone(body map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range body {
		out[k] = v
	}
	return out
}

// wake wakes the watches; the lock is held.
func (s *Server) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Bookmark has those watches that allow it sent one.
func (s *Server) Bookmark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++ // something else of the cluster has changed
	s.marks++
	s.wake()
}

// Compact forgets the history: who watches from before it hears 410.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.history, s.forgotten = nil, s.version
}

// SetToken says which token is right from now on.
func (s *Server) SetToken(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = token
}

// Deny has it answer 403, or not any more.
func (s *Server) Deny(denied bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denied = denied
}

// GoneByStatus has a watch that is too old answered by the status 410; else an event says so.
func (s *Server) GoneByStatus() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asStatus = true
}

// Split sends what is streamed in pieces of so many bytes, each a chunk of its own.
func (s *Server) Split(bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.piece = bytes
}

// Drop has the connections of the next watches that have something to say broken in the middle of it.
func (s *Server) Drop(watches int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drops = watches
}

// Answer puts a handler before its own, which tells whether it has answered; nil takes it away.
func (s *Server) Answer(answer func(http.ResponseWriter, *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// Requests are those so far: "list", "list continue", "watch 104".
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// encode is for what can always be encoded.
func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return append(text, '\n')
}

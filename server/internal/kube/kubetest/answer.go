package kubetest

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// serve answers a request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	asked := "list"
	switch {
	case query.Get("watch") == "1" || query.Get("watch") == "true":
		asked = "watch " + query.Get("resourceVersion")
	case query.Get("continue") != "":
		asked = "list continue"
	}
	s.mu.Lock()
	s.requests = append(s.requests, asked)
	answer, token, denied := s.answer, s.token, s.denied
	s.mu.Unlock()
	if answer != nil && answer(w, r) {
		return
	}
	path := "/apis/discovery.k8s.io/v1/namespaces/" + s.Namespace + "/endpointslices"
	switch {
	case r.Header.Get("Authorization") != "Bearer "+token:
		Status(w, http.StatusUnauthorized, "Unauthorized", "Unauthorized")
	case r.Method != http.MethodGet || r.URL.Path != path:
		Status(w, http.StatusNotFound, "NotFound", "the server could not find the requested resource")
	case denied:
		Status(w, http.StatusForbidden, "Forbidden", fmt.Sprintf(`endpointslices.discovery.k8s.io is forbidden: User "system:serviceaccount:%s:default" cannot list resource "endpointslices" in API group "discovery.k8s.io" in the namespace "%s"`, s.Namespace, s.Namespace))
	case strings.HasPrefix(asked, "watch"):
		s.watch(w, r, query)
	default:
		s.list(w, query)
	}
}

// Status answers as the API does what it doesn't do.
func Status(w http.ResponseWriter, code int, reason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(encode(status(code, reason, message))) // who has gone needs no answer
}

func status(code int, reason, message string) map[string]any {
	return map[string]any{"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Failure", "message": message, "reason": reason, "code": code}
}

func (s *Server) list(w http.ResponseWriter, query url.Values) {
	s.mu.Lock()
	defer s.mu.Unlock()
	after, version := "", s.version
	if token := query.Get("continue"); token != "" {
		name, at, _ := strings.Cut(token, "@")
		after = name
		version, _ = strconv.Atoi(at)
		if version < s.forgotten {
			Status(w, http.StatusGone, "Expired", "The provided continue parameter is too old to display a consistent list result.")
			return
		}
	}
	limit, _ := strconv.Atoi(query.Get("limit"))
	items, next := []any{}, ""
	for _, name := range slices.Sorted(maps.Keys(s.objects)) {
		o := s.objects[name]
		switch {
		case name <= after || !matches(query.Get("labelSelector"), o.labels):
		case limit > 0 && len(items) == limit:
			next = after + "@" + strconv.Itoa(version)
		case next == "":
			items, after = append(items, o.body), name
		}
	}
	meta := map[string]any{"resourceVersion": strconv.Itoa(version)}
	if next != "" {
		meta["continue"] = next
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(encode(map[string]any{"kind": "EndpointSliceList", "apiVersion": "discovery.k8s.io/v1", "metadata": meta, "items": items})) // who has gone needs no answer
}

// watch streams what has changed since a version.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, query url.Values) {
	version, err := strconv.Atoi(query.Get("resourceVersion"))
	if err != nil {
		Status(w, http.StatusBadRequest, "BadRequest", "resourceVersion: Invalid value")
		return
	}
	limit := 30 * time.Minute
	if seconds, err := strconv.Atoi(query.Get("timeoutSeconds")); err == nil && seconds > 0 {
		limit = time.Duration(seconds) * time.Second
	}
	s.mu.Lock()
	gone, asStatus, marked := version < s.forgotten, s.asStatus, s.marks
	s.mu.Unlock()
	tooOld := status(http.StatusGone, "Expired", "too old resource version: "+strconv.Itoa(version))
	if gone && asStatus {
		Status(w, http.StatusGone, "Expired", "too old resource version")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	if gone {
		s.send(w, "ERROR", tooOld)
		return
	}
	end := time.NewTimer(limit)
	defer end.Stop()
	for {
		s.mu.Lock()
		var due []change
		for _, c := range s.history {
			if c.version > version {
				due = append(due, c)
			}
		}
		mark, at, changed := s.marks > marked, s.version, s.changed
		marked = s.marks
		s.mu.Unlock()
		for _, c := range due {
			version = c.version
			if kind, o := c.seenBy(query.Get("labelSelector")); kind != "" {
				s.send(w, kind, o.body)
			}
		}
		if mark && query.Get("allowWatchBookmarks") == "true" {
			version = at
			s.send(w, "BOOKMARK", map[string]any{"kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", "addressType": "", "endpoints": nil, "ports": nil,
				"metadata": map[string]any{"resourceVersion": strconv.Itoa(at), "creationTimestamp": nil}})
		}
		select {
		case <-changed:
		case <-end.C:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// send writes an event, in pieces if it is told to, or half of it and no more.
func (s *Server) send(w http.ResponseWriter, kind string, body map[string]any) {
	text := encode(map[string]any{"type": kind, "object": body})
	s.mu.Lock()
	piece, drop := s.piece, s.drops > 0
	if drop {
		s.drops--
	}
	s.mu.Unlock()
	if drop {
		text = text[:len(text)/2]
	}
	if piece <= 0 {
		piece = len(text)
	}
	for part := range slices.Chunk(text, piece) {
		_, _ = w.Write(part) // who has gone is noticed by the request's context
		_ = http.NewResponseController(w).Flush()
	}
	if drop {
		panic(http.ErrAbortHandler)
	}
}

// seenBy is the event that a watch with a selector sees of a change: what no longer matches is deleted for it.
func (c change) seenBy(selector string) (kind string, o *object) {
	was := c.was != nil && matches(selector, c.was.labels)
	is := c.is != nil && matches(selector, c.is.labels)
	switch {
	case is && was:
		return "MODIFIED", c.is
	case is:
		return "ADDED", c.is
	case was && c.is == nil:
		return "DELETED", c.was
	case was:
		return "DELETED", c.is
	}
	return "", nil
}

// matches knows the selectors `key`, `key=value` and `key in (a,b)`.
func matches(selector string, labels map[string]string) bool {
	if selector == "" {
		return true
	}
	if key, set, ok := strings.Cut(selector, " in ("); ok {
		return slices.Contains(strings.Split(strings.TrimSuffix(set, ")"), ","), labels[key])
	}
	key, value, equal := strings.Cut(selector, "=")
	got, ok := labels[key]
	return ok && (!equal || got == value)
}

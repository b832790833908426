package console

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/eiderhq/eider"
)

// page encodes items until one more would break the limit or the budget of bytes; it always takes one.
func page[T any](items []T, limit, budget int) (taken []json.RawMessage, err error) {
	taken = []json.RawMessage{}
	for i := range items {
		one, err := encode(&items[i])
		if err != nil {
			return nil, err
		}
		budget -= len(one)
		if i == limit || budget < 0 && i > 0 {
			break
		}
		taken = append(taken, one)
	}
	return taken, nil
}

func encode(v any) (json.RawMessage, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), err
}

// hex writes a node run as every cursor does.
func hex(run uint64) string { return strconv.FormatUint(run, 16) }

func (c *console) services(w http.ResponseWriter, r *http.Request) {
	p, err := read(r, "limit", "after")
	if err != nil {
		failWith(w, err)
		return
	}
	all := c.reg.Services()
	all = all[sort.Search(len(all), func(i int) bool { return all[i].Service > p.after }):]
	list, err := page(all, p.limit, c.cfg.MaxBytes)
	if err != nil {
		failWith(w, err)
		return
	}
	node := c.reg.Node()
	out := struct {
		Now      time.Time         `json:"now"` // by the node's clock
		Node     string            `json:"node"`
		Complete bool              `json:"complete"`
		Void     []string          `json:"void,omitempty"`
		Services []json.RawMessage `json:"services"`
		Next     string            `json:"next,omitempty"` // ask on with ?after= this
	}{time.Now(), node.Name, node.Complete, node.Void, list, ""}
	if len(list) < len(all) {
		out.Next = all[len(list)-1].Service
	}
	writeJSON(w, http.StatusOK, out)
}

// view answers with one service. With If-None-Match and wait= it answers once the view has changed.
func (c *console) view(w http.ResponseWriter, r *http.Request) {
	name := eider.FoldService(r.PathValue("service"))
	p, err := read(r, "limit", "after", "wait", "caller", "every", "cache")
	if err == nil {
		err = eider.CheckService(name)
		if err != nil {
			err = invalid(err)
		}
	}
	if err != nil {
		failWith(w, err)
		return
	}
	if p.caller != "" && p.after == "" && r.Method == http.MethodGet {
		c.poll(w, r, name, p)
		return
	}
	v, ok := c.reg.View(name)
	if ok && p.wait > 0 && matches(r.Header.Values("If-None-Match"), etag(v)) {
		release, err := c.admit()
		if err != nil {
			failWith(w, err)
			return
		}
		defer release()
		if v, ok, err = c.await(w, r, v, p.wait); err != nil {
			failWith(w, err)
			return
		}
	}
	if !ok {
		failWith(w, c.noService(name))
		return
	}
	w.Header().Set("ETag", etag(v))
	w.Header().Set("Cache-Control", "no-cache")
	if matches(r.Header.Values("If-None-Match"), etag(v)) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	c.writeView(w, v, p)
}

// await returns the first view that isn't the one given, or the newest when the time is up. Events tell
// when to look; an event may come a little before the view that shows it, so a look is repeated twice.
// A node that stops says so: "unchanged" at once would make the asker ask again at once.
func (c *console) await(w http.ResponseWriter, r *http.Request, was *eider.View, wait time.Duration) (*eider.View, bool, error) {
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	c.extend(w, wait+writeGrace)
	seen := uint64(0)
	if all, _ := c.reg.Events(0); len(all) > 0 {
		seen = all[len(all)-1].Seq
	}
	for {
		for _, settle := range [...]time.Duration{0, 10 * time.Millisecond, 90 * time.Millisecond} {
			pause(ctx, settle)
			v, ok := c.reg.View(was.Service)
			if !ok || etag(v) != etag(was) {
				return v, ok, nil
			}
		}
		for about := false; !about; {
			if err := c.reg.EventsWait(ctx, seen); err != nil {
				if r.Context().Err() == nil && ctx.Err() != nil {
					v, ok := c.reg.View(was.Service)
					return v, ok, nil
				}
				return nil, false, eider.Errorf(eider.Unavailable, "", "this node is stopping: come back in a moment")
			}
			news, whole := c.reg.Events(seen)
			about = !whole
			for i := range news {
				seen = news[i].Seq
				about = about || news[i].Service == was.Service || news[i].Service == ""
			}
		}
	}
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (c *console) writeView(w http.ResponseWriter, v *eider.View, p params) {
	rest := v.Instances[sort.Search(len(v.Instances), func(i int) bool { return v.Instances[i].ID > p.after }):]
	list, err := page(rest, p.limit, c.cfg.MaxBytes)
	ended := v.Gone
	if p.after != "" {
		ended = nil // the first page has told
	}
	gone, errGone := page(ended, p.limit, c.cfg.MaxBytes)
	if err = cmp.Or(err, errGone); err != nil {
		failWith(w, err)
		return
	}
	out := struct {
		Service   string            `json:"service"`
		Cursor    eider.Cursor      `json:"cursor"`
		Complete  bool              `json:"complete"`
		Instances []json.RawMessage `json:"instances"`
		Gone      []json.RawMessage `json:"gone"`
		GoneMore  int               `json:"gone_left_out,omitempty"`
		Next      string            `json:"next,omitempty"` // ask on with ?after= this
	}{v.Service, v.Cursor, v.Complete, list, gone, len(ended) - len(gone), ""}
	if len(list) < len(rest) {
		out.Next = rest[len(list)-1].ID
	}
	writeJSON(w, http.StatusOK, out)
}

// etag names a view: the cursor, and whether it is complete, which may change without a change of instances.
func etag(v *eider.View) string {
	if !v.Complete {
		return `"` + v.Cursor.String() + `:incomplete"`
	}
	return `"` + v.Cursor.String() + `"`
}

// matches reads If-None-Match: a list of tags, weak or not, or a star.
func matches(headers []string, tag string) bool {
	for _, header := range headers {
		for one := range strings.SplitSeq(header, ",") {
			one = strings.TrimPrefix(strings.TrimSpace(one), "W/")
			if one == tag || one == "*" {
				return true
			}
		}
	}
	return false
}

// stranger tells whether a name is given that the node has never heard of: an empty list would hide the
// misspelling.
func (c *console) stranger(service string) bool {
	if service == "" {
		return false
	}
	_, ok := c.reg.Summary(service)
	return !ok
}

func (c *console) noService(name string) error {
	hint := "GET /v1/services lists those it knows"
	if near := nearest(name, c.reg.Services()); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	if !c.reg.Node().Complete {
		hint = "it started a moment ago, and not everybody may have attached yet: try again soon"
	}
	return eider.Errorf(eider.NotFound, "", "this node has never heard of a service %q: %s", name, hint)
}

func (c *console) callers(w http.ResponseWriter, r *http.Request) {
	p, err := read(r, "service", "limit", "after")
	if err != nil {
		failWith(w, err)
		return
	}
	all := c.reg.Callers(p.service)
	if len(all) == 0 && c.stranger(p.service) {
		failWith(w, c.noService(p.service))
		return
	}
	service, id, _ := strings.Cut(p.after, "/") // no service's name has a slash
	all = all[sort.Search(len(all), func(i int) bool {
		return cmp.Or(strings.Compare(all[i].Service, service), strings.Compare(all[i].ID, id)) > 0
	}):]
	list, err := page(all, p.limit, c.cfg.MaxBytes)
	if err != nil {
		failWith(w, err)
		return
	}
	out := struct {
		Now     time.Time         `json:"now"` // by the node's clock
		Callers []json.RawMessage `json:"callers"`
		Next    string            `json:"next,omitempty"` // ask on with ?after= this
	}{time.Now(), list, ""}
	if len(list) < len(all) {
		out.Next = all[len(list)-1].Service + "/" + all[len(list)-1].ID
	}
	writeJSON(w, http.StatusOK, out)
}

func (c *console) drains(w http.ResponseWriter, r *http.Request) {
	p, err := read(r, "service", "limit")
	if err != nil {
		failWith(w, err)
		return
	}
	all := c.reg.Drains(p.service)
	if len(all) == 0 && c.stranger(p.service) {
		failWith(w, c.noService(p.service))
		return
	}
	list, err := page(all, p.limit, c.cfg.MaxBytes)
	if err != nil {
		failWith(w, err)
		return
	}
	writeJSON(w, http.StatusOK, struct {
		Now     time.Time         `json:"now"` // by the node's clock
		Drains  []json.RawMessage `json:"drains"`
		LeftOut int               `json:"left_out,omitempty"` // older ones beyond the limit
	}{time.Now(), list, len(all) - len(list)})
}

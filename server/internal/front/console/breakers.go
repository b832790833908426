package console

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sort"
	"strings"
	"time"

	"github.com/eiderhq/eider"
)

// breakers answers with the instances for which some caller's circuit breaker isn't closed, and with the breakers that
// callers share.
func (c *console) breakers(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		c.writes(c.force)(w, r)
		return
	}
	p, err := read(r, "service", "limit", "after")
	if err != nil {
		failWith(w, err)
		return
	}
	all, callers := c.reg.Breakers(p.service)
	shared := c.shared(p.service, p.after)
	if len(all) == 0 && callers == 0 && len(shared) == 0 && c.stranger(p.service) {
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
	fleet, err := page(shared, p.limit, c.cfg.MaxBytes)
	if err != nil {
		failWith(w, err)
		return
	}
	out := struct {
		Now      time.Time         `json:"now"`     // by the node's clock
		Callers  int               `json:"callers"` // with a stream, by which they tell of their breakers
		Breakers []json.RawMessage `json:"breakers"`
		Fleet    []json.RawMessage `json:"fleet,omitempty"`          // that callers share; on the first page
		LeftOut  int               `json:"fleet_left_out,omitempty"` // of these, by limit
		Next     string            `json:"next,omitempty"`           // ask on with ?after= this
	}{time.Now(), callers, list, fleet, len(shared) - len(fleet), ""}
	if len(list) < len(all) {
		out.Next = all[len(list)-1].Key.String()
	}
	writeJSON(w, http.StatusOK, out)
}

// shared are the breakers that callers share, on the first page.
func (c *console) shared(service, after string) []eider.FleetBreaker {
	if c.cfg.Panel == nil || after != "" {
		return nil
	}
	return c.cfg.Panel.List(service)
}

// forceRequest is what POST /v1/breakers takes.
type forceRequest struct {
	Key string `json:"key"`
	Do  string `json:"do"` // open, close or reset
}

// force does an operator's will to a breaker that callers share.
func (c *console) force(w http.ResponseWriter, r *http.Request) {
	req, err := readForce(r)
	var b eider.FleetBreaker
	switch {
	case err != nil:
	case c.cfg.Panel == nil:
		err = eider.Errorf(eider.Unavailable, "", "this node keeps no breakers that callers share")
	default:
		b, err = c.cfg.Panel.Force(r.Context(), req.Key, req.Do)
	}
	if err != nil {
		failWith(w, err)
		return
	}
	what, key := req.Do+" the breaker that callers share", eider.Key{Service: req.Key}
	if eider.CheckService(req.Key) != nil {
		what, key = fmt.Sprintf("%s by the key %.64q", what, req.Key), eider.Key{}
	}
	c.operated(r, what, key)
	writeJSON(w, http.StatusOK, b)
}

func readForce(r *http.Request) (req forceRequest, err error) {
	if _, err := read(r); err != nil {
		return req, err
	}
	dec := json.NewDecoder(http.MaxBytesReader(nil, r.Body, 2*maxBody)) // a key may have all of one
	dec.DisallowUnknownFields()
	if err := dec.Decode(&req); err != nil {
		return req, invalid(fmt.Errorf(`the body can't be read: %w; it is like {"key": "orders", "do": "open"}`, err))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return req, invalid(errors.New("the body goes on after its first value; it is one object"))
	}
	return req, nil
}

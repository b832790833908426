package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sort"
	"strings"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/replica"
)

// maxBody is the largest request that changes something, in bytes.
const maxBody = 4 << 10

// holdRequest is what POST /v1/holds takes. A field that isn't known is a fault: it would be one that was meant.
type holdRequest struct {
	Service string `json:"service"`
	ID      string `json:"id"`
	For     string `json:"for"`    // how long, as 2h; "" until it is released
	Reason  string `json:"reason"` // for people
}

// holds lists who is held, and holds.
func (c *console) holds(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		c.writes(c.holdOne)(w, r)
		return
	}
	p, err := read(r, "limit", "after")
	if err != nil {
		failWith(w, err)
		return
	}
	var all []eider.Held
	if holder, ok := c.reg.(replica.Holder); ok {
		all = holder.Holds()
	}
	if service, id, ok := strings.Cut(p.after, "/"); ok {
		after := eider.Key{Service: service, ID: id}
		all = all[sort.Search(len(all), func(i int) bool { return all[i].Key.Compare(after) > 0 }):]
	}
	list, err := page(all, p.limit, c.cfg.MaxBytes)
	if err != nil {
		failWith(w, err)
		return
	}
	out := struct {
		Now   time.Time         `json:"now"` // by the node's clock
		Holds []json.RawMessage `json:"holds"`
		Next  string            `json:"next,omitempty"` // ask on with ?after= this
	}{time.Now(), list, ""}
	if len(list) < len(all) {
		out.Next = all[len(list)-1].Key.String()
	}
	writeJSON(w, http.StatusOK, out)
}

// hold shows one hold, and releases.
func (c *console) hold(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodDelete {
		c.writes(c.release)(w, r)
		return
	}
	key, holder, err := c.holding(r)
	if err == nil {
		_, err = read(r)
	}
	if err != nil {
		failWith(w, err)
		return
	}
	for _, h := range holder.Holds() {
		if h.Key == key {
			writeJSON(w, http.StatusOK, h)
			return
		}
	}
	failWith(w, eider.Errorf(eider.NotFound, "", "%s isn't held; GET /v1/holds lists who is", key))
}

// holding reads which key a path names.
func (c *console) holding(r *http.Request) (eider.Key, replica.Holder, error) {
	key := eider.Key{Service: eider.FoldService(r.PathValue("service")), ID: r.PathValue("id")}
	if err := errors.Join(eider.CheckService(key.Service), eider.CheckID(key.ID)); err != nil {
		return key, nil, invalid(err)
	}
	holder, ok := c.reg.(replica.Holder)
	if !ok {
		return key, nil, eider.Errorf(eider.Unavailable, "", "this node can't hold instances")
	}
	return key, holder, nil
}

func (c *console) holdOne(w http.ResponseWriter, r *http.Request) {
	key, h, err := readHold(r)
	holder, ok := c.reg.(replica.Holder)
	switch {
	case err != nil:
	case !ok:
		err = eider.Errorf(eider.Unavailable, "", "this node can't hold instances")
	default:
		h.By = c.by(r)
		h, err = holder.Hold(key, h)
	}
	if err != nil {
		failWith(w, err)
		return
	}
	c.operated(r, "hold", key)
	out := eider.Held{Key: key, Hold: h}
	for _, one := range holder.Holds() {
		if one.Key == key && one.Count == h.Count {
			out = one
		}
	}
	writeJSON(w, http.StatusOK, out)
}

// readHold reads what is to be held. It reports every fault at once.
func readHold(r *http.Request) (key eider.Key, h eider.Hold, err error) {
	if _, err := read(r); err != nil {
		return key, h, err
	}
	var req holdRequest
	dec := json.NewDecoder(http.MaxBytesReader(nil, r.Body, maxBody))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&req); err != nil {
		return key, h, invalid(fmt.Errorf(`the body can't be read: %w; it is like {"service": "orders", "id": "1", "for": "2h", "reason": "disk swap"}`, err))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return key, h, invalid(errors.New("the body goes on after its first value; it is one object"))
	}
	key = eider.Key{Service: eider.FoldService(req.Service), ID: req.ID}
	h = eider.Hold{Reason: req.Reason}
	errs := []error{eider.CheckService(key.Service), eider.CheckID(key.ID), h.Check()}
	if req.For != "" {
		d, err := time.ParseDuration(req.For)
		if err != nil || d < time.Second || d > eider.MaxHoldFor {
			errs = append(errs, fmt.Errorf("for: %.40q must be a duration from 1s to %s, as in 2h, or be left out", req.For, eider.MaxHoldFor))
		}
		h.Until = time.Now().Add(d)
	}
	if err := errors.Join(errs...); err != nil {
		return key, h, invalid(err)
	}
	return key, h, nil
}

func (c *console) release(w http.ResponseWriter, r *http.Request) {
	key, holder, err := c.holding(r)
	if err == nil {
		_, err = read(r)
	}
	if err == nil {
		err = holder.Release(key, c.by(r))
	}
	if err != nil {
		failWith(w, err)
		return
	}
	c.operated(r, "release", key)
	writeJSON(w, http.StatusOK, key)
}

// by is who asks, as far as this node knows him.
func (c *console) by(r *http.Request) string {
	name := whoAsks(r).String()
	if name == "" {
		name = from(r)
	}
	return name[:min(len(name), eider.MaxHoldText)]
}

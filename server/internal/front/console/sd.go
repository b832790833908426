package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/eiderhq/eider"
)

// maxDiscovery is the budget of bytes for /v1/sd, whose format knows no pages, as a multiple of MaxBytes.
const maxDiscovery = 4

// target is one entry of Prometheus' http_sd format.
type target struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// discovery lists who is UP, doubted or not (one that is doubted is worth a look more than the others).
//
// Prometheus keeps its targets when this fails and drops them when the list is empty. So a node that
// hasn't heard of everybody yet fails, and empties nobody's list.
func (c *console) discovery(w http.ResponseWriter, r *http.Request) {
	p, err := read(r, "service", "port")
	if err != nil {
		failWith(w, err)
		return
	}
	if node := c.reg.Node(); !node.Ready || !node.Complete {
		e := eider.Errorf(eider.Unavailable, "", "this node hasn't heard of everybody yet: it started at %s; keep the targets that you have", node.Since.Format(time.RFC3339))
		e.RetryAfter = 5 * time.Second
		failWith(w, e)
		return
	}
	names := []string{p.service}
	if p.service == "" {
		names = names[:0]
		for _, s := range c.reg.Services() {
			names = append(names, s.Service)
		}
	}
	list, left := []json.RawMessage{}, maxDiscovery*c.cfg.MaxBytes
	for _, name := range names {
		v, ok := c.reg.View(name)
		if !ok {
			continue // unknown, or forgotten since: nobody of it is UP
		}
		for _, t := range targets(v, p.port) {
			one, err := encode(t)
			if left -= len(one); left < 0 && err == nil {
				err = eider.Errorf(eider.Limited, "", "the targets don't fit into %d bytes: ask for one service at a time, ?service=NAME", maxDiscovery*c.cfg.MaxBytes)
			}
			if err != nil {
				failWith(w, err)
				return
			}
			list = append(list, one)
		}
	}
	writeJSON(w, http.StatusOK, list)
}

// targets returns one target an instance: labels are an instance's own.
func targets(v *eider.View, port string) []target {
	var out []target
	for i := range v.Instances {
		in := &v.Instances[i]
		endpoint, ok := in.Endpoint(port)
		if in.Status != eider.Up || !ok {
			continue
		}
		labels := map[string]string{"eider_service": v.Service, "__meta_eider_service": v.Service,
			"__meta_eider_id": in.ID, "__meta_eider_incarnation": in.Incarnation.String()}
		if in.Zone != "" {
			labels["eider_zone"], labels["__meta_eider_zone"] = in.Zone, in.Zone
		}
		if in.Suspicion != 0 {
			labels["__meta_eider_suspicion"] = in.Suspicion.String()
		}
		if in.Hold != nil { // it serves on, and is worth a look more than the others
			labels["__meta_eider_hold"] = cmp.Or(in.Hold.Reason, "held")
		}
		for name, number := range in.Ports {
			labels["__meta_eider_port_"+labelName(name)] = fmt.Sprint(number)
		}
		for _, key := range slices.Sorted(maps.Keys(in.Metadata)) { // two keys may become one label: the last wins, always the same
			labels["__meta_eider_metadata_"+labelName(key)] = in.Metadata[key]
		}
		out = append(out, target{[]string{endpoint}, labels})
	}
	return out
}

// labelName makes a label's name of any text, as Prometheus' own discoveries do.
func labelName(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, text)
}

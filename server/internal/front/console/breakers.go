package console

import (
	"cmp"
	"encoding/json"
	"net/http"
	"sort"
	"strings"
	"time"
)

// breakers answers with the instances for which some caller's circuit breaker isn't closed.
func (c *console) breakers(w http.ResponseWriter, r *http.Request) {
	p, err := read(r, "service", "limit", "after")
	if err != nil {
		failWith(w, err)
		return
	}
	all, callers := c.reg.Breakers(p.service)
	if len(all) == 0 && callers == 0 && c.stranger(p.service) {
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
		Now      time.Time         `json:"now"`     // by the node's clock
		Callers  int               `json:"callers"` // with a stream, by which they tell of their breakers
		Breakers []json.RawMessage `json:"breakers"`
		Next     string            `json:"next,omitempty"` // ask on with ?after= this
	}{time.Now(), callers, list, ""}
	if len(list) < len(all) {
		out.Next = all[len(list)-1].Key.String()
	}
	writeJSON(w, http.StatusOK, out)
}

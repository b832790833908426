package offline

import (
	"slices"
	"strings"

	"github.com/eiderhq/eider/server/internal/outlook"
)

// kind is what a term is one of, whatever a system calls it: it has one colour in all pictures.
type kind struct {
	name  string
	terms []string
}

// kinds are all, in the order in which a departure meets them. The index is the colour.
func kinds() []kind {
	return []kind{
		{"forgiven silence", []string{"lease", "session", "idle", "silence", "probes", "health check", "suspicion", "node grace", "client expiry"}},
		{"check", []string{"sweep", "further sweeps", "check", "ejector", "cleaner", "probe", "probe timeout", "expiry loop", "expiry bucket", "revocations", "elections", "node monitor",
			"deregister", "reap", "dial refused", "its port refuses"}},
		{"between servers", []string{"peer batch", "distro", "agent push", "full sync", "raft and push", "leave spreads", "slice sync", "slice batch"}},
		{"server's copy", []string{"response cache", "server cache", "apps refresh", "debounce"}},
		{"push", []string{"push", "push retries", "watch", "blocking query", "kube-proxy"}},
		{"caller's copy", []string{"client cache", "its cache", "poll", "poller", "poller's answer", "an answer on its way", "SDK refresh", "record TTL"}},
		{"load balancer's copy", []string{"load-balancer cache"}},
		{"acknowledgement", []string{"callers let go", "callers from before", "pause for unknown callers"}},
	}
}

// palette has a colour for each term of a picture: its kind's, or one of its own for a term by hand. When those are
// used up the rest share one.
type palette struct {
	entries []entry
}

// entry is one colour of a legend.
type entry struct {
	hue   int
	kind  string // "" for terms by hand
	terms []string
}

// add learns a term.
func (p *palette) add(term string) {
	all := kinds()
	hue := slices.IndexFunc(all, func(k kind) bool { return slices.Contains(k.terms, term) })
	name := ""
	if hue >= 0 {
		name = all[hue].name
	} else if hue = p.of(term); hue < 0 {
		hue = len(all)
		for _, e := range p.entries {
			if e.kind == "" {
				hue = min(max(hue, e.hue+1), hues-1)
			}
		}
	}
	i := slices.IndexFunc(p.entries, func(e entry) bool { return e.hue == hue })
	if i < 0 {
		i, p.entries = len(p.entries), append(p.entries, entry{hue: hue, kind: name})
	}
	if e := &p.entries[i]; !slices.Contains(e.terms, term) {
		e.terms = append(e.terms, term)
	}
}

// of is the colour of a term, -1 if there is none.
func (p *palette) of(term string) int {
	for _, e := range p.entries {
		if slices.Contains(e.terms, term) {
			return e.hue
		}
	}
	return -1
}

// String writes "caller's copy: client cache, poll".
func (e entry) String() string {
	terms := strings.Join(e.terms, ", ")
	if e.kind == "" || e.kind == terms {
		return terms
	}
	return e.kind + ": " + terms
}

// paletteOf has the colours of all terms that take time.
func paletteOf(paths ...outlook.Path) (p palette) {
	for _, w := range paths {
		for _, t := range w.Terms {
			if t.Max > 0 {
				p.add(t.Name)
			}
		}
	}
	slices.SortStableFunc(p.entries, func(a, b entry) int { return a.hue - b.hue })
	return p
}

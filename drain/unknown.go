package drain

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eiderhq/eider"
)

// probers are the user agents of those who only look: they don't pick instances, so nobody waits for them.
// Each is the beginning of a User-Agent header.
var probers = [...]string{
	"kube-probe/",                         // kubelet
	"ELB-HealthChecker/",                  // AWS load balancers
	"Amazon-Route53-Health-Check-Service", // AWS DNS
	"GoogleHC/",                           // Google Cloud load balancers
	"Envoy/HC",                            // Envoy's active checks
	"Consul Health Check",                 // Consul agents
	"Prometheus/",                         // scrapes
}

// probePaths are what Config.Probes is by default.
var probePaths = [...]string{"/healthz", "/readyz", "/livez", "/health", "/ready", "/live", "/metrics"}

// IsProbe tells by its User-Agent whether a request comes from a known prober: of kubelet, of a cloud's load
// balancers, of Envoy, Consul or Prometheus.
func IsProbe(userAgent string) bool {
	for _, p := range probers {
		if strings.HasPrefix(userAgent, p) {
			return true
		}
	}
	return false
}

// probes tells whether a request only looks whether this process is well.
func (s *settings) probes(r *http.Request) bool {
	for _, p := range s.Probes {
		if rest, ok := strings.CutPrefix(r.URL.Path, p); ok && (rest == "" || rest[0] == '/') {
			return true
		}
	}
	agent := r.Header["User-Agent"]
	return len(agent) == 1 && IsProbe(agent[0])
}

// strangers keeps who has called since the leave, as far as it decides how long the pause has to be.
type strangers struct {
	mu      sync.Mutex
	nobody  bool     // somebody who didn't say who he is, or not whom he means
	callers []string // who did, up to one more than a drain lists
}

// met notes who a request since the leave comes from; known tells that it says so.
func (s *strangers) met(x *exchange, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !known:
		s.nobody = true
	case len(s.callers) <= eider.MaxMembers && !slices.Contains(s.callers, x.caller):
		s.callers = append(s.callers, x.caller)
	}
}

// blind makes somebody of those who can't be seen.
func (s *strangers) blind() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nobody = true
}

// uncounted tells whether somebody has called whom the drain doesn't count. If it counts more than it lists, a
// caller with a name is taken for one of them.
func (s *strangers) uncounted(d eider.Drain) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nobody || d.Total > len(d.Members) {
		return s.nobody
	}
	for _, caller := range s.callers {
		if !slices.ContainsFunc(d.Members, func(m eider.Member) bool { return m.Caller == caller }) {
			return true
		}
	}
	return false
}

// isUnknown tells whether a member stands for the unknown callers.
func isUnknown(m eider.Member) bool { return m.Kind == eider.UnknownCallers }

// unknown adds the unknown callers to a drain, if there are any: a node that heard of them has them as a member
// already, one that hasn't yet, or never will, doesn't. Their pause counts from the leave by this process' own clock.
// It returns how long they are waited for, 0 if there are none.
func (d *drainer) unknown(dr *eider.Drain) time.Duration {
	if d.set.Unknown == 0 {
		return 0
	}
	at := slices.IndexFunc(dr.Members, isUnknown)
	if at < 0 {
		if !d.work.Read().Unknown && !d.since.uncounted(*dr) {
			return 0
		}
		at = 0
		dr.Members = slices.Insert(slices.Clone(dr.Members), 0, eider.Member{Caller: string(eider.UnknownCallers), Kind: eider.UnknownCallers,
			State: eider.Waiting, Cap: d.set.Unknown})
		dr.Total++
		dr.Open++
	} else {
		dr.Members = slices.Clone(dr.Members)
	}
	m := &dr.Members[at]
	if passed := d.now() - d.leave.Load().at; passed >= d.set.Unknown && !m.State.Settled() {
		m.State, m.Settled = eider.Capped, d.set.Unknown
		dr.Open--
	}
	return d.set.Unknown
}

package lint

import (
	"time"

	"github.com/eiderhq/eider/window"
)

// windowOf is how long callers still call a pod of this workload that leaves.
func (l *workload) windowOf() window.Sum {
	if n := l.annotation("eider.dev/window"); n.ok() {
		if d, ok := duration(n.text(), time.Second); ok {
			return window.Sum{window.Fixed("window", d, l.at("eider.dev/window", n.line()))}
		}
	}
	if l.world.options.Window > 0 {
		return window.Sum{window.Fixed("window", l.world.options.Window, "--window")}
	}
	return window.Longest(kubernetes(), l.eureka())
}

// kubernetes is the way of an endpoint out of every node's rules.
func kubernetes() window.Sum {
	return window.Sum{
		{Name: "EndpointSlice update", Max: time.Second, Source: "the controller's batching"},
		{Name: "kube-proxy's sync", Max: time.Second, Source: "minSyncPeriod 1s"},
	}
}

// eureka is the window of callers that find this workload by Eureka, nil if none do.
func (l *workload) eureka() window.Sum { return nil }

// registers tells whether the pods enter a registry, so that they are called without a Service.
func (l *workload) registers() bool { return false }

// advised is the pause for a window: as long as it and a margin, and at least 5 s, which lost nothing on a real node.
func advised(w window.Sum) time.Duration { return max(w.Worst()+margin, 5*time.Second) }

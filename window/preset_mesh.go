package window

import "time"

// probes are what Kubernetes notices with that a container no longer serves.
func probes() []Setting {
	return []Setting{
		{Name: "probe-period", What: "the readiness probe's periodSeconds", Default: lasts(10 * time.Second), least: int64(time.Millisecond),
			Source: "kubernetes pkg/apis/core/v1/defaults.go"},
		{Name: "probe-failures", What: "its failureThreshold", Default: count(3), least: 1, most: 1000, Source: "kubernetes pkg/apis/core/v1/defaults.go"},
		{Name: "probe-timeout", What: "its timeoutSeconds", Default: lasts(time.Second), least: int64(time.Millisecond), Source: "kubernetes pkg/apis/core/v1/defaults.go",
			cost: "a slow answer is a failure"},
	}
}

// probing is the time until the last of the probes that have to fail has failed, and how long a healthy container may
// be silent at the least.
func (c *chosen) probing() (terms []Term, patience time.Duration) {
	period, failures := c.lasts("probe-period"), c.count("probe-failures")
	patience = times(failures-1, period)
	return []Term{
		Uniform("probes", patience, times(failures, period), c.source("probe-failures", "probe-period")),
		c.upTo("probe timeout", "probe-timeout"),
	}, Sum{{Max: patience}, {Max: c.lasts("probe-timeout")}}.Worst()
}

// kubernetes is a Service, and kube-proxy on the callers' nodes.
func kubernetes() Preset {
	return Preset{
		Name: "kubernetes", Title: "Kubernetes, a Service through kube-proxy", pushed: true,
		About: "Deleting a pod changes its endpoints and runs its preStop hook at the same time, in no order: the hook has to last as long as this window. " +
			"The crash is a container that hangs, so that its readiness probes have to fail; one whose process ends is noticed sooner, by the kubelet itself, which isn't in here. node-lost=on is a node that " +
			"falls silent. New connections only: kube-proxy breaks none that are open, and ingresses and meshes have lists of their own (10 s to 30 s in all are reported: mattrobinsonsre/terrapod#222).",
		Settings: append(probes(),
			Setting{Name: "slice-sync", What: "changes of a Service are gathered for so long", Default: lasts(time.Second),
				given:  true,
				Source: "kubernetes pkg/controller/endpointslice/endpointslice_controller.go, a constant"},
			Setting{Name: "slice-batch", What: "and for so long on top", Default: lasts(0),
				Source: "kube-controller-manager --endpointslice-updates-batch-period", cost: "each update goes to every node"},
			Setting{Name: "proxy-min-sync", What: "kube-proxy rewrites its rules at most so often", Default: lasts(time.Second),
				Source: "kubernetes pkg/proxy/apis/config/v1alpha1/defaults.go minSyncPeriod", cost: "rules are rewritten so much more often, on every node"},
			Setting{Name: "node-lost", What: "the whole node falls silent: no probe runs", Default: turned(false), given: true, Source: "kubernetes/kubernetes#127352"},
			Setting{Name: "node-grace", What: "a node may be silent for so long; 40s in older ones", Default: lasts(50 * time.Second), least: int64(time.Millisecond),
				Source: "kubernetes pkg/controller/nodelifecycle/config/v1alpha1/defaults.go nodeMonitorGracePeriod", cost: "nodes that are only slow are given up"},
			Setting{Name: "keep-alive", What: "callers keep their connections open", Default: turned(false), given: true, Source: "net/http and most clients do"},
		),
		derive: func(c *chosen) (Forecast, error) {
			tail := []Term{c.upTo("slice sync", "slice-sync"), c.upTo("slice batch", "slice-batch"), c.upTo("kube-proxy", "proxy-min-sync")}
			noticed, patience := c.probing()
			if c.on("node-lost") {
				grace := c.lasts("node-grace")
				node := Uniform("node grace", max(grace-10*time.Second, 0), grace, c.source("node-grace")+", its lease renewed every 10s")
				noticed = []Term{node, Uniform("node monitor", 0, 5*time.Second, "nodelifecycle defaults.go nodeMonitorPeriod 5s")}
			}
			f := Forecast{
				Planned: Window{Terms: sum(tail...)},
				Crash:   Window{Terms: sum(append(noticed, tail...)...)},
				Load:    c.load(0, c.lasts("probe-period"), patience),
				Heard:   true,
			}
			for _, w := range []*Window{&f.Planned, &f.Crash} {
				if c.on("keep-alive") {
					w.Void = "callers keep connections open: the platform moves new ones only and has no bound for the others; " + nevertheless +
						", and a server that closes its connections before it ends"
				}
				w.VoidWhen = []string{"callers keep connections open: the platform has no bound for those", "the API server is away: every node keeps its rules"}
			}
			return f, nil
		},
	}
}

// dns is a record, and callers that look it up again.
func dns() Preset {
	return Preset{
		Name: "dns", Title: "DNS records with a TTL",
		About: "A record that is taken out, with the TTL of AWS Cloud Map, and its custom health check for a crash. Resolvers count one TTL down along their chain, " +
			"so that it counts once. How soon somebody reports a crashed instance to the health check isn't in here. A cache that doesn't look at the TTL comes on top: the JVM's of 30 s (client-cache=30s), grpc-go's least interval of 30 s. ECS stops a task without waiting for any of it.",
		Settings: []Setting{
			{Name: "record-ttl", What: "the record's TTL; CoreDNS as kubeadm sets it up: 30s", Default: lasts(60 * time.Second), Source: "AWS CDK CloudMapOptions dnsTtl, 1 minute"},
			{Name: "client-cache", What: "how long callers keep an answer whatever its TTL is", Default: lasts(0), Source: "none; JVM java.security networkaddress.cache.ttl 30s",
				cost: "an outage of the resolver shows so much sooner"},
			{Name: "check-interval", What: "an instance that is reported unhealthy is listed for so long", Default: lasts(30 * time.Second), least: int64(time.Millisecond), given: true,
				Source: "AWS Cloud Map HealthCheckCustomConfig, a constant"},
			{Name: "check-failures", What: "times so many", Default: count(1), least: 1, most: 1000, Source: "AWS Cloud Map HealthCheckCustomConfig FailureThreshold"},
			{Name: "re-resolve", What: "callers look names up again", Default: turned(true), given: true, Source: "many look up once: pools, keep-alive connections, the JVM under a security manager"},
		},
		derive: func(c *chosen) (Forecast, error) {
			tail := []Term{c.upTo("record TTL", "record-ttl"), c.upTo("client cache", "client-cache")}
			patience := times(c.count("check-failures"), c.lasts("check-interval"))
			f := Forecast{
				Planned: Window{Terms: sum(tail...)},
				Crash: Window{Terms: sum(append([]Term{Fixed("health check", patience, c.source("check-interval", "check-failures"))},
					tail...)...)},
				Load: c.load(max(c.lasts("record-ttl"), c.lasts("client-cache")), 0, patience),
			}
			for _, w := range []*Window{&f.Planned, &f.Crash} {
				if !c.on("re-resolve") {
					w.Void = "callers look the name up once and keep its addresses; " + nevertheless
				}
				w.VoidWhen = []string{"a caller keeps its addresses for ever: no lookup while its connections live, or a JVM under a security manager",
					"a resolver serves stale answers while it can't reach the zone"}
			}
			return f, nil
		},
	}
}

// envoyEDS is a mesh whose control plane gathers changes.
func envoyEDS() Preset {
	return Preset{
		Name: "envoy-eds", Title: "Envoy, endpoints from Istio", pushed: true,
		About: "Istio's pilot waits for quiet, at most 10 s, and pushes. The push itself isn't in here: milliseconds, more in a mesh with many proxies (15 at a time and 5 for each core). " +
			"A crash is noticed by readiness probes as in kubernetes; outlier detection, if it is set up, may eject it earlier at each proxy.",
		Settings: append(probes(),
			Setting{Name: "debounce-after", What: "quiet for so long: push", Default: lasts(100 * time.Millisecond), least: int64(time.Millisecond),
				Source: "istio pilot/pkg/features/tuning.go PILOT_DEBOUNCE_AFTER", cost: "more pushes while many pods change"},
			Setting{Name: "debounce-max", What: "push after so long, quiet or not", Default: lasts(10 * time.Second), least: int64(time.Millisecond),
				Source: "istio pilot/pkg/features/tuning.go PILOT_DEBOUNCE_MAX", cost: "more pushes while many pods change"},
			Setting{Name: "vetoed", What: "Envoy's own health check keeps a removed host while it answers", Default: turned(false), given: true,
				Source: "Cluster ignore_health_on_host_removal; envoyproxy/envoy#11527"},
		),
		derive: func(c *chosen) (Forecast, error) {
			quiet, longest := c.lasts("debounce-after"), c.lasts("debounce-max")
			debounce := Uniform("debounce", min(quiet, longest), longest, c.source("debounce-max", "debounce-after"))
			noticed, patience := c.probing()
			f := Forecast{
				Planned: Window{Terms: sum(debounce), VoidWhen: []string{
					"active health checks without ignore_health_on_host_removal: a host stays while it answers (549s seen)",
					"a proxy's stream to the control plane is cut"}},
				Crash: Window{Terms: sum(append(noticed, debounce)...), VoidWhen: []string{"a proxy's stream to the control plane is cut: its own outlier detection is left"}},
				Load:  c.load(0, c.lasts("probe-period"), patience),
				Heard: true,
			}
			if c.on("vetoed") {
				f.Planned.Void = "Envoy's own health check keeps a removed host for as long as it answers (549s seen: envoyproxy/envoy#11527): " +
					"it ends when the instance fails its checks; set ignore_health_on_host_removal"
			}
			return f, nil
		},
	}
}

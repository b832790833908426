package window

import (
	"fmt"
	"math"
	"time"
)

const noQuorum = "no quorum: without a leader no change is written and no lease runs out; " + nevertheless

func quorum(what string) Setting {
	return Setting{Name: "quorum", What: what + " have a leader; off is a what-if", Default: turned(true), given: true, Source: "the state of the servers"}
}

// voidWithout voids both paths without a quorum.
func (c *chosen) voidWithout(f Forecast) Forecast {
	for _, w := range []*Window{&f.Planned, &f.Crash} {
		if !c.on("quorum") {
			w.Void = noQuorum
		}
		w.VoidWhen = append([]string{"no quorum"}, w.VoidWhen...)
	}
	return f
}

// consulTTL is a service whose process keeps its own check alive.
func consulTTL() Preset {
	return Preset{
		Name: "consul-ttl", Title: "Consul, TTL check", pushed: true,
		About: "An instance with a TTL check at its agent; callers hold a blocking query. Consul has no default for the TTL, Spring Cloud Consul's is taken, " +
			"with its heartbeat at two thirds of it. A crash is over for callers that ask for passing instances when the check is critical; others wait until it is deleted. " +
			"That a change reaches the callers within 1 s is no documented bound, it is what is observed of a pushed one.",
		Settings: append(consulSync(),
			Setting{Name: "ttl", What: "the check is critical when it isn't renewed for so long", Default: lasts(30 * time.Second), least: int64(time.Millisecond),
				Source: "Spring Cloud Consul heartbeat.ttl"},
			Setting{Name: "passing", What: "callers ask for passing instances only; Spring Cloud Consul's query-passing is off", Default: turned(true), given: true,
				Source: "/v1/health/service?passing"},
			Setting{Name: "deregister-after", What: "a critical instance is deleted after so long, if callers take critical ones", Default: lasts(60 * time.Second),
				least: int64(60 * time.Second), Source: "Consul docs, DeregisterCriticalServiceAfter: at least 1m"},
		),
		derive: func(c *chosen) (Forecast, error) {
			ttl := c.lasts("ttl")
			beat := ttl / 3 * 2
			crash := []Term{c.silence(ttl, beat, "ttl")}
			crash[0].Source += ", renewed at 2/3 of it: HeartbeatProperties intervalRatio"
			if !c.on("passing") {
				crash = append(crash,
					Fixed("deregister", c.lasts("deregister-after"), c.source("deregister-after")),
					Uniform("reap", 0, 30*time.Second, "critical services are reaped every 30s: Consul docs, DeregisterCriticalServiceAfter"))
			}
			f := Forecast{
				Planned: Window{Terms: sum(c.consulPush()...), VoidWhen: []string{consulVoid}},
				Crash:   Window{Terms: sum(append(crash, c.consulPush()...)...), VoidWhen: []string{consulVoid, "the agent dies with its instances: then its node has to fail, see consul-gossip"}},
				Load:    c.load(c.lasts("wait"), beat, ttl-beat),
			}
			return c.voidWithout(f), nil
		},
	}
}

const consulVoid = "a caller reads by DNS with its own cache, or from a server that may be stale: dns_config.max_stale is 10 years"

// consulSync are the settings of the way from an agent to the callers.
func consulSync() []Setting {
	return []Setting{
		quorum("the servers"),
		{Name: "sync-failed", What: "the agent couldn't push the change and waits for its next full sync", Default: turned(false), given: true, Source: "agent/ae/ae.go"},
		{Name: "sync-interval", What: "a full sync so often, with as much jitter again", Default: lasts(60 * time.Second), Source: "agent/config/default.go ae_interval",
			cost: "every agent sends all its services so much more often"},
		{Name: "wakeup-lost", What: "a caller's blocking query wasn't woken and runs out; one that was asked just before the push arrived has all of its wait left, so that the push comes on top",
			Default: turned(false), given: true, Source: "developer.hashicorp.com/consul/api-docs/features/blocking"},
		{Name: "wait", What: "how long a blocking query waits, and a sixteenth longer", Default: lasts(5 * time.Minute), least: int64(time.Second), most: int64(10 * time.Minute),
			Source: "developer.hashicorp.com/consul/api-docs/features/blocking"},
		{Name: "nodes", What: "agents in the cluster; they sync more rarely, and suspect longer, the more they are", Default: count(100), least: 1, given: true,
			Source: "agent/ae/ae.go scaleFactor, memberlist util.go"},
	}
}

// consulPush is the way from an agent to the callers.
func (c *chosen) consulPush() []Term {
	push := []Term{Uniform("agent push", 0, time.Second, "pushed at once: agent/local/state.go; below 1s as observed")}
	if c.on("sync-failed") {
		// The jitter's bound grows with the cluster: once up to 128 nodes, then once more for each doubling.
		scale := 1 + max(0, int(math.Ceil(math.Log2(float64(c.count("nodes")))-7)))
		most := Sum{{Max: c.lasts("sync-interval")}, {Max: times(scale, c.lasts("sync-interval"))}}.Worst()
		push = []Term{Uniform("full sync", 0, most, c.source("sync-interval", "nodes"))}
	}
	if c.on("wakeup-lost") {
		push = append(push, Uniform("blocking query", 0, c.lasts("wait")+c.lasts("wait")/16, c.source("wait")+"; not woken, and asked just before the push arrived"))
	}
	return push
}

// consulGossip is a node that fails, with all its services.
func consulGossip() Preset {
	return Preset{
		Name: "consul-gossip", Title: "Consul, a node fails", pushed: true,
		About: "A node with its agent goes: the others probe it, suspect it, and the leader marks its services critical. " +
			"Suspicion lasts 4 × log10(nodes) probe intervals at the least, when others confirm it, and 6 times as long at the most: 8 s to 48 s for 100 nodes, the default here, " +
			"12 s to 72 s for 1,000, 16 s to 96 s for 10,000. It is taken as evenly spread, while confirmations usually come early: the mean is on the high side.",
		Settings: append(consulSync(), gossip()...),
		derive: func(c *chosen) (Forecast, error) {
			noticed, patience := c.gossip()
			f := Forecast{
				Planned: Window{Terms: sum(c.consulPush()...), VoidWhen: []string{consulVoid}},
				Crash: Window{Terms: sum(append(noticed, Uniform("raft and push", 0, time.Second, "the leader writes, blocking queries wake: below 1s as observed"))...),
					VoidWhen: []string{"most nodes are overloaded: probes slow down up to eightfold (memberlist awareness)", consulVoid}},
				Load: c.load(c.lasts("wait"), c.lasts("probe-interval"), patience),
			}
			return c.voidWithout(f), nil
		},
	}
}

// serf is gossip alone.
func serf() Preset {
	return Preset{
		Name: "serf", Title: "Serf (LAN)", pushed: true,
		About: "Gossip without servers, three nodes unless said otherwise: a leave was seen by all after 2.4 s and a kill -9 after 7.0 s, measured. " +
			"A crash at the worst is derived: a probe and the longest suspicion. A failed member is forgotten after 24 h, not earlier.",
		Settings: append([]Setting{{Name: "nodes", What: "members; they suspect longer the more they are", Default: count(3), least: 1, given: true,
			Source: "memberlist util.go"}}, gossip()...),
		derive: func(c *chosen) (Forecast, error) {
			noticed, patience := c.gossip()
			return Forecast{
				Planned: Window{Terms: sum(Uniform("leave spreads", 0, 2400*time.Millisecond, "measured with three nodes; serf/config.go GossipInterval, LeavePropagateDelay")),
					VoidWhen: []string{"the network parts: the other side waits for its own suspicion"}},
				Crash: Window{Terms: sum(noticed...), VoidWhen: []string{"most nodes are overloaded: probes slow down up to eightfold (memberlist awareness)"}},
				Load:  c.load(0, c.lasts("probe-interval"), patience),
			}, nil
		},
	}
}

func gossip() []Setting {
	return []Setting{
		{Name: "probe-interval", What: "each node probes another so often", Default: lasts(time.Second), least: int64(time.Millisecond),
			Source: "memberlist config.go DefaultLANConfig ProbeInterval"},
		{Name: "suspicion-mult", What: "a suspect has so many probe intervals, times log10 of the nodes, to answer", Default: count(4), least: 1, most: 1000,
			Source: "memberlist config.go DefaultLANConfig SuspicionMult"},
	}
}

// gossip is the time until a failed node is taken for dead, and how long a healthy one may be silent.
func (c *chosen) gossip() (noticed []Term, patience time.Duration) {
	interval := c.lasts("probe-interval")
	scale := max(1, math.Log10(float64(c.count("nodes"))))
	least := duration(float64(times(c.count("suspicion-mult"), interval)) * scale).Round(time.Millisecond)
	return []Term{
		c.upTo("probe", "probe-interval"),
		Uniform("suspicion", least, times(6, least), c.source("suspicion-mult", "probe-interval", "nodes")+"; SuspicionMaxTimeoutMult 6"),
	}, least
}

// etcd is a key with a lease, and callers that watch its prefix.
func etcd() Preset {
	return Preset{
		Name: "etcd", Title: "etcd, leases and watches", pushed: true,
		About: "A key under a lease, callers watch. etcd has no default for the TTL, its Go client's sessions ask for 60 s and renew at a third of it. " +
			"A change of leader gives every lease its whole TTL anew. The milliseconds of the watch are below what a crash is reckoned to. Measured with a TTL of 2 s: 2.18 s.",
		Settings: []Setting{
			quorum("the members"),
			{Name: "ttl", What: "the lease's time to live, in whole seconds", Default: lasts(60 * time.Second), least: int64(time.Second),
				Source: "etcd client/v3/concurrency/session.go defaultSessionTTL"},
			{Name: "election-timeout", What: "no lease is granted for less than 1.5 times it, in whole seconds", Default: lasts(time.Second), least: int64(time.Millisecond), given: true,
				Source: "etcd server/embed/config.go, server/lease/lessor.go minLeaseTTL"},
			{Name: "elections", What: "changes of leader meanwhile: each gives the lease its whole TTL anew", Default: count(0), most: 1000, given: true,
				Source: "etcd server/lease/lessor.go Promote"},
		},
		derive: func(c *chosen) (Forecast, error) {
			least := seconds(c.lasts("election-timeout") + c.lasts("election-timeout")/2)
			ttl := max(seconds(c.lasts("ttl")), least)
			beat := ttl / 3
			lost := c.fleet.Lost
			lease := c.silence(ttl, beat, "ttl", "election-timeout")
			lease.Source += ", renewed at 1/3: client/v3/lease.go"
			f := Forecast{
				Planned: Window{Terms: sum(watch()), VoidWhen: []string{watchCut}},
				Crash: Window{Terms: sum(lease,
					Uniform("elections", 0, times(c.count("elections"), ttl), c.source("elections")),
					Uniform("expiry loop", 0, 500*time.Millisecond, "etcd server/lease/lessor.go: every 500ms"),
					Uniform("revocations", 0, times(lost, time.Millisecond), fmt.Sprintf("%d lost at 1000 a second: etcd server/lease/lessor.go defaultLeaseRevokeRate", lost)),
				), VoidWhen: []string{"leaders change again and again: each change begins every lease anew", watchCut}},
				Load: c.load(0, beat, ttl-beat),
			}
			return c.voidWithout(f), nil
		},
	}
}

// watchMost is what a pushed change is given where nobody states a bound.
const watchMost = 10 * time.Millisecond

func watch() Term {
	return Uniform("watch", 0, watchMost, "pushed within milliseconds; 10ms is assumed, no bound is documented")
}

const watchCut = "a caller's watch is cut: it keeps its last list until it has connected again"

// zookeeper is an ephemeral node, and callers that watch its parent.
func zookeeper() Preset {
	return Preset{
		Name: "zookeeper", Title: "ZooKeeper, sessions and watches", pushed: true,
		About: "An ephemeral node, callers watch. Curator asks for a session of 60 s; the server grants 2 to 20 ticks: 40 s with the tick of 2 s of Debian's and the sample configuration, " +
			"taken here, 60 s with the code's own 3 s (tick=3s: 63 s at the worst). Sessions are expired in buckets of a tick. The milliseconds of the watch are below what a crash is reckoned to.",
		Settings: []Setting{
			quorum("the servers"),
			{Name: "session", What: "the session timeout that the client asks for", Default: lasts(60 * time.Second), least: int64(time.Millisecond),
				Source: "CuratorFrameworkFactory DEFAULT_SESSION_TIMEOUT_MS"},
			{Name: "tick", What: "the server's tick; a session lasts 2 to 20 of it", Default: lasts(2 * time.Second), least: int64(time.Millisecond),
				Source: "zoo_sample.cfg tickTime, ZooKeeperServer.java", cost: "servers ping each other so much more often, and elect sooner"},
		},
		derive: func(c *chosen) (Forecast, error) {
			tick := c.lasts("tick")
			session := min(max(c.lasts("session"), times(2, tick)), times(20, tick))
			beat := min(session/3, 10*time.Second)
			granted := c.silence(session, beat, "session", "tick")
			granted.Name, granted.Source = "session", granted.Source+", pinged at 1/3, at least every 10s: ClientCnxn.java"
			f := Forecast{
				Planned: Window{Terms: sum(watch()), VoidWhen: []string{watchCut}},
				Crash:   Window{Terms: sum(granted, c.upTo("expiry bucket", "tick")), VoidWhen: []string{"leaders change again and again: each change begins every session anew", watchCut}},
				Load:    c.load(0, beat, session-beat),
			}
			return c.voidWithout(f), nil
		},
	}
}

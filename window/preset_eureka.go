package window

import (
	"fmt"
	"time"
)

// eurekaTextbook is what slides say of Eureka.
func eurekaTextbook() Preset {
	return Preset{
		Name:  "eureka-textbook",
		Title: "Eureka as the textbooks have it",
		About: "What is usually reckoned: a lease, a sweep, a client cache. A real Eureka has more terms: its lease counts twice, " +
			"it answers from a cache, and Spring's load balancer keeps a list of its own. See eureka.",
		Settings: []Setting{
			eurekaRenew(), eurekaLease(), eurekaSweep(), eurekaClientCache(),
		},
		derive: func(c *chosen) (Forecast, error) {
			lease, renew := c.lasts("lease"), c.lasts("renew")
			client := c.upTo("client cache", "client-cache")
			return Forecast{
				Planned: Window{Terms: sum(client), VoidWhen: []string{eurekaUnreachable}},
				Crash: Window{
					Terms:    sum(c.silence(lease, renew, "lease", "renew"), c.upTo("sweep", "sweep"), client),
					VoidWhen: []string{"self-preservation, of which this picture knows nothing: see eureka", eurekaUnreachable},
				},
				Load: c.load(c.lasts("client-cache"), renew, lease-renew),
				Call: eurekaCall(),
			}, c.outlasts(lease, "lease", renew, c.called("renew"))
		},
	}
}

// eurekaSpring is Spring's server, with clients that use Spring Cloud LoadBalancer.
func eurekaSpring() Preset {
	p := eurekaNetflix()
	p.Name, p.Title = "eureka", "Eureka with Spring Cloud"
	p.About = "Spring's server and clients with Spring Cloud LoadBalancer, every cache at its default. " +
		"A renewal stores now + lease and expiry adds the lease again, so that an instance that has renewed once is kept for two leases: " +
		"documented, and left as it is (Netflix/eureka#531). Evictions aren't replicated, each server times out by itself; a cancel is. " +
		"Self-preservation and a sweep's share go by all instances that the registry holds, those of other services among them: --registry; without it the service is alone there."
	p.Settings = append(p.Settings, Setting{
		Name: "load-balancer-cache", What: "how long Spring Cloud LoadBalancer keeps its list", Default: lasts(35 * time.Second),
		Source: "LoadBalancerCacheProperties ttl", Key: "spring.cloud.loadbalancer.cache.ttl", cost: "the list is built anew so much more often, by no request over the network",
	})
	p.derive = func(c *chosen) (Forecast, error) {
		f, err := deriveEureka(c, 1, "load-balancer-cache")
		f.Flight = Fixed("Spring's shutdown phase", 30*time.Second, "spring.lifecycle.timeout-per-shutdown-phase")
		return f, err
	}
	return p
}

// eurekaNetflix is Netflix's own server, and clients without a further cache.
func eurekaNetflix() Preset {
	return Preset{
		Name:  "eureka-netflix",
		Title: "Eureka without Spring's load balancer",
		About: "Netflix's server, and clients that pick from the Eureka client's own list. The lease counts twice, and self-preservation goes by all that the registry holds, as in eureka.",
		Settings: []Setting{
			eurekaRenew(), eurekaLease(), eurekaSweep(), eurekaClientCache(),
			{Name: "response-cache", What: "the server answers from a copy, refreshed so often; 0 if useReadOnlyResponseCache is off",
				Default: lasts(30 * time.Second), Source: "DefaultEurekaServerConfig responseCacheUpdateIntervalMs, ResponseCacheImpl", Key: "eureka.server.response-cache-update-interval-ms",
				cost: "the server writes its whole list anew so much more often, while it changes"},
			{Name: "peer-batch", What: "a server gathers changes for its peers for so long", Default: lasts(500 * time.Millisecond),
				given:  true,
				Source: "PeerEurekaNode MAX_BATCHING_DELAY_MS, a constant"},
			{Name: "peers", What: "the servers replicate to each other", Default: turned(true), given: true,
				Source: "eureka.client.serviceUrl of the servers"},
			{Name: "self-preservation", What: "evict nobody while too few renew", Default: turned(true),
				Source: "DefaultEurekaServerConfig enableSelfPreservation", Key: "eureka.server.enable-self-preservation",
				cost: "a network that parts evicts the healthy behind it, a sweep's share at a time"},
			{Name: "renewal-percent", What: "of the expected renewals must come, and so much of the registry stays in one sweep",
				Default: count(85), least: 1, most: 99, Source: "DefaultEurekaServerConfig renewalPercentThreshold, AbstractInstanceRegistry evict",
				cost: "a network that parts evicts more of the healthy"},
			{Name: "expected-renew", What: "the interval at which the server expects renewals", Default: lasts(30 * time.Second),
				least: int64(time.Second), given: true, Source: "EurekaServerConfig expectedClientRenewalIntervalSeconds", Key: "eureka.server.expected-client-renewal-interval-seconds"},
		},
		derive: func(c *chosen) (Forecast, error) { return deriveEureka(c, 0, "") },
	}
}

func eurekaRenew() Setting {
	return Setting{Name: "renew", What: "an instance renews its lease so often", Default: lasts(30 * time.Second), least: int64(time.Millisecond),
		Source: "EurekaInstanceConfigBean leaseRenewalIntervalInSeconds", Key: "eureka.instance.lease-renewal-interval-in-seconds",
		cost: "the last renewal before a crash is younger, so that more of the lease is left; self-preservation counts renewals and expects those of " +
			"expected-renew"}
}

func eurekaLease() Setting {
	return Setting{Name: "lease", What: "the lease, counted from a renewal", Default: lasts(90 * time.Second), least: int64(time.Millisecond),
		Source: "EurekaInstanceConfigBean leaseExpirationDurationInSeconds", Key: "eureka.instance.lease-expiration-duration-in-seconds"}
}

func eurekaSweep() Setting {
	return Setting{Name: "sweep", What: "the server looks for expired leases so often", Default: lasts(60 * time.Second),
		Source: "DefaultEurekaServerConfig evictionIntervalTimerInMs", Key: "eureka.server.eviction-interval-timer-in-ms", cost: "a scan of the registry so much more often"}
}

func eurekaClientCache() Setting {
	return Setting{Name: "client-cache", What: "a client fetches the list so often", Default: lasts(30 * time.Second), least: int64(time.Millisecond),
		Source: "EurekaClientConfigBean registryFetchIntervalSeconds", Key: "eureka.client.registry-fetch-interval-seconds"}
}

const eurekaUnreachable = "a caller can't reach any server: it keeps its last list"

// eurekaCall is what a preStop hook does first: a plain sleep would be over before Eureka hears anything. A program that
// hangs may keep it waiting for so long, as lint writes it.
func eurekaCall() Term {
	return Fixed("call", 5*time.Second, "the hook has Eureka told, for up to so long: curl --max-time 5")
}

// deriveEureka adds a real Eureka up. A server starts with seed instances more than it has, see preservation; cache
// names the setting of a load balancer's own cache, if there is one.
func deriveEureka(c *chosen, seed int, cache string) (Forecast, error) {
	lease, renew := times(2, c.lasts("lease")), c.lasts("renew")
	doubled := c.silence(lease, renew, "lease", "renew")
	doubled.Source += "; counted twice: Lease.java, Netflix/eureka#531"
	lists := []Term{c.upTo("response cache", "response-cache"), c.upTo("client cache", "client-cache")}
	if cache != "" {
		lists = append(lists, c.upTo("load-balancer cache", cache))
	}
	planned, crash := lists, []Term{doubled, c.upTo("sweep", "sweep"), c.furtherSweeps()}
	if c.on("peers") {
		planned = append([]Term{c.upTo("peer batch", "peer-batch")}, lists...)
	}
	f := Forecast{
		Planned: Window{Terms: sum(planned...), VoidWhen: []string{
			eurekaUnreachable,
			"the servers can't reach each other: a cancel is dropped after 30s of retries (maxTimeForReplication), and the other servers wait for the lease",
		}},
		Crash: Window{Terms: sum(append(crash, lists...)...), VoidWhen: []string{eurekaUnreachable, "the server restarts: leases begin anew"}},
		Load:  c.load(c.lasts("client-cache"), renew, lease-renew),
		Call:  eurekaCall(),
	}
	if c.on("self-preservation") {
		f.Crash.Void = c.preservation(seed)
		when, bears := c.preservationWhen(seed)
		f.Crash.VoidWhen, f.Crash.bears = append([]string{when}, f.Crash.VoidWhen...), bears
	}
	return f, c.outlasts(lease, "lease", renew, c.called("renew"))
}

// furtherSweeps is the time until the sweep in which a lost instance's turn comes: one sweep evicts no more than the
// share above renewal-percent, at random.
func (c *chosen) furtherSweeps() Term {
	left, size := c.fleet.Lost, c.fleet.held()
	keep := float64(c.count("renewal-percent")) / 100
	var shape []Bucket
	for i := 0; left > 0; i++ {
		now := min(left, size-int(float64(size)*keep))
		at := times(i, c.lasts("sweep"))
		shape = append(shape, Bucket{From: at, To: at, Weight: float64(now)})
		left, size = left-now, size-now
	}
	return Histogram("further sweeps", shape, fmt.Sprintf("%s: %d sweeps for %d of %d instances",
		c.source("renewal-percent"), len(shape), c.fleet.Lost, c.fleet.held()))
}

// renewals are how many come in a minute when so many are lost, and how many must come, and one more.
func (c *chosen) renewals(seed, lost int) (come, must int) {
	n, percent := c.fleet.held(), float64(c.count("renewal-percent"))/100
	// A server that starts alone expects seed more than come. It reckons anew every 15 minutes from what its own client
	// sees, if that is enough of what it has expected: never for five instances or fewer.
	expected := n
	if !c.on("peers") || float64(n) <= percent*float64(n+seed) {
		expected += seed
	}
	come = int(float64(n-lost) * 60 / c.lasts("renew").Seconds())
	must = int(float64(expected) * (60 / c.lasts("expected-renew").Seconds()) * percent)
	return come, must
}

// preservation says why no lease runs out now, if it is so.
func (c *chosen) preservation(seed int) string {
	if seed == 0 && !c.on("peers") {
		return "self-preservation: a server that starts alone expects no renewals at all and evicts nobody (Netflix/eureka#1459); " + nevertheless
	}
	if come, must := c.renewals(seed, 0); come <= must {
		return fmt.Sprintf("self-preservation: %d instances renew %d times a minute and more than %d are demanded, so that nobody is ever evicted "+
			"(spring-cloud-netflix#4101); %s", c.fleet.held(), come, must, nevertheless)
	}
	come, must := c.renewals(seed, c.fleet.Lost)
	if come > must {
		return ""
	}
	return fmt.Sprintf("self-preservation: with %d of %d instances lost %d renewals a minute come and more than %d are demanded, so that nobody is evicted, "+
		"for good (Netflix/eureka#1073); %s", c.fleet.Lost, c.fleet.held(), come, must, nevertheless)
}

// preservationWhen says how many may be lost at once.
func (c *chosen) preservationWhen(seed int) (void string, bears int) {
	const when = "self-preservation"
	if seed == 0 && !c.on("peers") {
		return when + ", always", 0
	}
	low, high := -1, c.fleet.held() // low are let go, high are not: nobody renews then
	for high-low > 1 {
		middle := (low + high) / 2
		if come, must := c.renewals(seed, middle); come > must {
			low = middle
		} else {
			high = middle
		}
	}
	if low < 1 {
		return fmt.Sprintf("%s: any crash among %d instances", when, c.fleet.held()), 0
	}
	return fmt.Sprintf("%s: more than %d of %d instances lost at once", when, low, c.fleet.held()), low
}

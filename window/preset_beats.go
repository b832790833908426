package window

import "time"

func springCache() Setting {
	return Setting{Name: "load-balancer-cache", What: "a further list of the callers; Spring Cloud LoadBalancer's lasts 35s", Default: lasts(0),
		Source: "none without Spring; LoadBalancerCacheProperties ttl 35s", cost: "the list is built anew so much more often, by no request over the network"}
}

// nacos1 is Nacos with beats over HTTP and pushes over UDP.
func nacos1() Preset {
	return Preset{
		Name: "nacos-1", Title: "Nacos 1.x",
		About: "Beats over HTTP, pushes over UDP that may be lost, so that callers poll besides. A crash ends when the instance is deleted; " +
			"callers that take healthy ones only are through 15 s earlier (unhealthy after 15 s). With Spring's load balancer set load-balancer-cache=35s.",
		Settings: []Setting{
			{Name: "beat", What: "an instance beats so often", Default: lasts(5 * time.Second), least: int64(time.Millisecond), Source: "nacos Constants DEFAULT_HEART_BEAT_INTERVAL"},
			{Name: "delete", What: "without a beat for so long it is deleted", Default: lasts(30 * time.Second), least: int64(time.Millisecond), Source: "nacos Constants DEFAULT_IP_DELETE_TIMEOUT"},
			{Name: "check", What: "the server looks for silent instances so often", Default: lasts(5 * time.Second), Source: "nacos HealthCheckReactor", cost: "a scan so much more often"},
			nacosDistro(), nacosPush(),
			{Name: "poll", What: "a caller polls so often", Default: lasts(10 * time.Second), least: int64(time.Millisecond), Source: "nacos ServiceInfoUpdateService, HostReactor"},
			springCache(),
		},
		derive: func(c *chosen) (Forecast, error) {
			beat, deleted := c.lasts("beat"), c.lasts("delete")
			tail := []Term{c.upTo("distro", "distro"), c.upTo("push", "push"), c.upTo("poll", "poll"), c.upTo("load-balancer cache", "load-balancer-cache")}
			return Forecast{
				Planned: Window{Terms: sum(tail...), VoidWhen: []string{nacosUnreachable}},
				Crash:   Window{Terms: sum(append([]Term{c.silence(deleted, beat, "delete", "beat"), c.upTo("check", "check")}, tail...)...), VoidWhen: []string{nacosUnreachable, nacosProtect}},
				Load:    c.load(c.lasts("poll"), beat, deleted-beat),
			}, c.outlasts(deleted, "delete", beat, c.called("beat"))
		},
	}
}

const (
	nacosUnreachable = "a caller can't reach any server: it keeps its last list"
	nacosProtect     = "few healthy ones are left: below its protect threshold a service lists all its instances"
)

func nacosDistro() Setting {
	return Setting{Name: "distro", What: "servers tell each other after so long", Default: lasts(time.Second), Source: "nacos DistroConstants DEFAULT_DATA_SYNC_DELAY_MILLISECONDS",
		cost: "more and smaller messages between the servers"}
}

func nacosPush() Setting {
	return Setting{Name: "push", What: "changes are gathered for so long", Default: lasts(500 * time.Millisecond), Source: "nacos PushConstants DEFAULT_PUSH_TASK_DELAY",
		cost: "more and smaller pushes"}
}

// nacos2 is Nacos with a connection that carries beats and pushes.
func nacos2() Preset {
	return Preset{
		Name: "nacos-2", Title: "Nacos 2 and 3", pushed: true,
		About: "A connection carries beats and pushes. The crash is one that the connection doesn't show, a lost host: that of a process closes it and is noticed at once. " +
			"A push that isn't acknowledged is repeated after 5 s and 1 s (push-retries=1: 7.5 s). With Spring's load balancer set load-balancer-cache=35s.",
		Settings: []Setting{
			{Name: "keep-alive", What: "a client shows itself so often", Default: lasts(5 * time.Second), least: int64(time.Millisecond), Source: "nacos DefaultGrpcClientConfig connectionKeepAlive"},
			{Name: "idle", What: "a connection that shows nothing for so long is doubted", Default: lasts(20 * time.Second), least: int64(time.Millisecond), Source: "nacos ConnectionManager KEEP_ALIVE_TIME"},
			{Name: "ejector", What: "the server looks for those so often", Default: lasts(3 * time.Second), Source: "nacos RuntimeConnectionEjector", cost: "a scan so much more often"},
			{Name: "probe", What: "and gives them so long to answer", Default: lasts(5 * time.Second), Source: "nacos RuntimeConnectionEjector", cost: "less patience with a slow client"},
			nacosDistro(), nacosPush(),
			{Name: "push-retries", What: "pushes that get lost: each costs an ack timeout of 5s and a delay of 1s", Default: count(0), most: 1000, given: true,
				Source: "nacos PushConstants DEFAULT_PUSH_TASK_TIMEOUT, DEFAULT_PUSH_TASK_RETRY_DELAY"},
			{Name: "owner-cut-off", What: "the server that holds the connection is cut off from the others, which hear neither of a departure there nor of a crash; when they forget its clients that is a change as any other, so that the push comes on top",
				Default: turned(false), given: true, Source: "nacos ConnectionBasedClientManager"},
			{Name: "client-expiry", What: "the other servers then keep its clients for so long", Default: lasts(3 * time.Minute), Source: "nacos ClientConstants DEFAULT_CLIENT_EXPIRED_TIME",
				cost: "a server that is cut off loses its instances sooner, though they live"},
			springCache(),
		},
		derive: func(c *chosen) (Forecast, error) {
			alive, idle := c.lasts("keep-alive"), c.lasts("idle")
			push := []Term{c.upTo("push", "push"),
				Uniform("push retries", 0, times(c.count("push-retries"), 6*time.Second), c.source("push-retries")),
				c.upTo("load-balancer cache", "load-balancer-cache")}
			planned := append([]Term{c.upTo("distro", "distro")}, push...)
			lease := c.silence(idle, alive, "idle", "keep-alive")
			lease.Name = "idle"
			crash := append([]Term{lease, c.upTo("ejector", "ejector"), c.upTo("probe", "probe")}, planned...)
			if c.on("owner-cut-off") { // the others know nothing until they forget its clients
				forgotten := []Term{Fixed("client expiry", c.lasts("client-expiry"), c.source("client-expiry")+"; forgotten, its instances are pushed as any other change"),
					Uniform("cleaner", 0, 5*time.Second, "nacos ConnectionBasedClientManager looks for expired clients every 5s: Constants DEFAULT_HEART_BEAT_INTERVAL")}
				planned = append(forgotten, push...) // nor do they hear of a departure at a server that can't tell them
				crash = planned
			}
			return Forecast{
				Planned: Window{Terms: sum(planned...), VoidWhen: []string{nacosUnreachable}},
				Crash:   Window{Terms: sum(crash...), VoidWhen: []string{nacosUnreachable, nacosProtect}},
				Load:    c.load(0, alive, idle-alive+c.lasts("probe")),
			}, c.outlasts(idle, "idle", alive, c.called("keep-alive"))
		},
	}
}

// polaris is its own protocol, or its Eureka interface.
func polaris() Preset {
	return Preset{
		Name: "polaris", Title: "Polaris",
		About: "Its own protocol: beats every TTL, three may be missed; server and SDK each keep a cache. Measured at the server alone, on a busy machine: " +
			"planned 0.87 s, crash 18.7 s, where these terms come to 17 s. eureka-api=on is an instance and callers that use its Eureka interface, which keeps a list of " +
			"its own, and Spring Cloud LoadBalancer: 76 s and 167 s.",
		Settings: []Setting{
			{Name: "ttl", What: "an instance beats so often; it is unhealthy after three times so long", Default: lasts(5 * time.Second), least: int64(time.Millisecond),
				Source: "polaris-go pkg/config/default.go, polaris service/healthcheck/check.go"},
			{Name: "server-cache", What: "the server's cache is refreshed so often", Default: lasts(time.Second), Source: "polaris cache/cache.go", cost: "the database is asked so much more often"},
			{Name: "sdk-refresh", What: "the SDK asks so often", Default: lasts(2 * time.Second), least: int64(time.Millisecond), Source: "polaris-go pkg/config/default.go"},
			{Name: "eureka-api", What: "instance and callers use the Eureka interface", Default: turned(false), given: true, Source: "polaris eurekaserver/server.go"},
			{Name: "renew", What: "there, an instance renews so often", Default: lasts(30 * time.Second), least: int64(time.Millisecond), Source: "EurekaInstanceConfigBean leaseRenewalIntervalInSeconds", Key: "eureka.instance.lease-renewal-interval-in-seconds"},
			{Name: "apps-refresh", What: "and the server's list is refreshed so often", Default: lasts(10 * time.Second), Source: "polaris eurekaserver/config.go", cost: "the list is written anew so much more often"},
			eurekaClientCache(),
			{Name: "load-balancer-cache", What: "how long Spring Cloud LoadBalancer keeps its list", Default: lasts(35 * time.Second), Source: "LoadBalancerCacheProperties ttl", Key: "spring.cloud.loadbalancer.cache.ttl",
				cost: "the list is built anew so much more often, by no request over the network"},
		},
		derive: func(c *chosen) (Forecast, error) {
			beat, poll := "ttl", "sdk-refresh"
			lists := []Term{c.upTo("server cache", "server-cache"), c.upTo("SDK refresh", "sdk-refresh")}
			if c.on("eureka-api") {
				beat, poll = "renew", "client-cache"
				lists = []Term{c.upTo("server cache", "server-cache"), c.upTo("apps refresh", "apps-refresh"),
					c.upTo("client cache", "client-cache"), c.upTo("load-balancer cache", "load-balancer-cache")}
			}
			every := c.lasts(beat)
			lease := c.silence(times(3, every), every, beat)
			lease.Source += "; three times it"
			check := Uniform("check", 0, time.Second, "spread at random over 1s: polaris service/healthcheck/check.go")
			unreachable := "a caller can't reach any server: it keeps its last list"
			return Forecast{
				Planned: Window{Terms: sum(lists...), VoidWhen: []string{unreachable}},
				Crash:   Window{Terms: sum(append([]Term{lease, check}, lists...)...), VoidWhen: []string{unreachable}},
				Load:    c.load(c.lasts(poll), every, times(2, every)),
			}, nil
		},
	}
}

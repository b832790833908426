package lint

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// pause is how a container goes on serving when its pod begins to leave: REQUIREMENTS S2.
type pause struct {
	kind   pauseKind
	length time.Duration
	known  bool   // length is; a program's own pause and a call over HTTP take as long as they take
	what   string // "preStop sleep"
	line   int
	needs  string // the program that the hook runs, "" if it runs none
	script string // what a shell is told
	calls  []call // its requests over HTTP, in their order
	unread string // what it runs besides, of which nothing is known
}

type pauseKind int

const (
	pauseNone   pauseKind = iota
	pauseSelf             // the program pauses when it gets SIGTERM
	pauseSleep            // preStop.sleep, which the kubelet itself does
	pauseExec             // preStop.exec, which runs a program of the image
	pauseHTTP             // preStop.httpGet or tcpSocket
	pauseBroken           // a preStop that Kubernetes can't run
)

// knob is a setting that holds a duration.
type knob struct {
	name string
	unit time.Duration // of a bare number
}

// ownPauses are settings of programs that pause by themselves when they get SIGTERM.
var ownPauses = []knob{
	{"kc.shutdown.delay", time.Second},
	{"quarkus.shutdown.delay", time.Second},
	{"shutdown-grace-period", time.Second}, // ingress-nginx: sleeps before it stops nginx
	{"min-sigterm-delay", time.Second},     // cloud-sql-proxy
	{"CSQL_PROXY_MIN_SIGTERM_DELAY", time.Second},
	{"term_timeout", time.Second},                       // cloud_sql_proxy 1
	{"TERMINATION_DRAIN_DURATION_SECONDS", time.Second}, // istio-proxy
	{"SHUTDOWN_DELAY", time.Second},
	{"SHUTDOWN_DELAY_SECONDS", time.Second},
	{"PRE_STOP_DELAY_SECONDS", time.Second},
	{"LAME_DUCK_SECONDS", time.Second},
	{"LAMEDUCK_DURATION", time.Second},
}

// pauseOf finds a container's pause: its hook's, with that of the program itself after it.
func (l *workload) pauseOf(c *container) pause {
	p := l.hookOf(c)
	if declared := l.annotation("eider.dev/pause"); declared.ok() && c == l.main {
		d, ok := duration(declared.text(), time.Second)
		if !ok {
			return p
		}
		if p.kind == pauseNone {
			p = pause{kind: pauseSelf, what: "eider.dev/pause", line: declared.line()}
		}
		p.length, p.known = d, true
		return p
	}
	own := l.ownPause(c)
	switch {
	case p.kind == pauseNone:
		return own
	case own.known && p.known:
		p.length += own.length
		p.what += " and " + own.what
	}
	return p
}

// ownPause is what a program does by itself.
func (l *workload) ownPause(c *container) pause {
	if a := l.annotation("eider.dev/pauses"); a.text() == "self" && c == l.main {
		return pause{kind: pauseSelf, what: "eider.dev/pauses", line: a.line()}
	}
	if s := c.settings.get("EIDER_ADDR", "EIDER_GRACE", "EIDER_TOKEN_FILE"); s.ok() {
		return pause{kind: pauseSelf, what: s.name, line: s.line}
	}
	if a := l.annotation("config.alpha.linkerd.io/proxy-wait-before-exit-seconds"); a.ok() && program(c.name) == "linkerd-proxy" {
		d, ok := duration(a.text(), time.Second)
		return pause{kind: pauseSelf, length: d, known: ok, what: "proxy-wait-before-exit-seconds", line: a.line()}
	}
	if p := l.lameDuck(); p.known && c == l.main {
		return p
	}
	if s := c.settings.get("EXIT_ON_ZERO_ACTIVE_CONNECTIONS"); strings.EqualFold(s.value, "true") { // istio-proxy
		return pause{kind: pauseSelf, what: s.name, line: s.line}
	}
	for _, k := range ownPauses {
		s := c.settings.get(k.name)
		if d, ok := s.duration(k.unit); ok && d > 0 {
			return pause{kind: pauseSelf, length: d, known: true, what: s.name, line: s.line}
		}
	}
	if s := c.settings[0].ending("requestacceptgracetimeout"); s.ok() { // Traefik: one for each entry point
		d, ok := s.duration(time.Second)
		return pause{kind: pauseSelf, length: d, known: ok, what: s.name, line: s.line}
	}
	return pause{}
}

// lameDuck is CoreDNS' own pause, which stands in its Corefile.
func (l *workload) lameDuck() pause {
	for _, m := range l.mounted() {
		if p := m.corefile(); p.kind != pauseNone {
			return p
		}
	}
	return pause{}
}

// corefile is the pause that a ConfigMap's Corefile sets, looked for once: it may be long, and is asked for often.
func (o *object) corefile() pause {
	if o.asCorefile == nil {
		o.asCorefile = &pause{}
		if found := lameducks.FindStringSubmatch(o.get("data", "Corefile").text()); found != nil {
			d, ok := duration(found[1], time.Second)
			*o.asCorefile = pause{kind: pauseSelf, length: d, known: ok, what: "lameduck in Corefile"}
		}
	}
	return *o.asCorefile
}

// hookOf is the pause of a container's hook, read once: its script may be long, and is asked for often.
func (l *workload) hookOf(c *container) pause {
	if c.hook == nil {
		p := readHook(c)
		c.hook = &p
	}
	return *c.hook
}

func readHook(c *container) pause {
	hook := c.get("lifecycle", "preStop")
	p := pause{line: c.get("lifecycle").keyLine("preStop")}
	switch {
	case !hook.ok():
		return pause{}
	case hook.get("sleep").ok():
		n := hook.get("sleep", "seconds")
		seconds, ok := n.meant()
		p.kind, p.known, p.what = pauseSleep, ok && seconds >= 0 || !n.ok(), "preStop sleep" // none are 0
		p.length = time.Duration(min(max(seconds, 0), int(most.Seconds()))) * time.Second
	case hook.get("httpGet").ok():
		p.kind, p.what = pauseHTTP, "preStop httpGet"
	case len(hook.get("exec", "command").texts()) > 0:
		p.readExec(hook.get("exec", "command").texts())
	default: // tcpSocket was never carried out; empty is nothing
		p.kind, p.what = pauseBroken, "preStop"
	}
	return p
}

var (
	shells    = []string{"sh", "bash", "ash", "dash", "zsh"}
	sleeps    = regexp.MustCompile(`(?:^|[\s;&|(/])sleep\s+"?(?:\$\{[A-Za-z_]+:-)?(\d+(?:\.\d+)?)([smh]?)\b`)
	stops     = regexp.MustCompile(`(?:^|[\s;&|(/])(?:kill|killall|pkill)\s|\s-s\s+(?:quit|stop|QUIT|TERM)\b|\s(?:shutdown|stop|graceful-stop)(?:[\s;&|)]|$)`)
	lameducks = regexp.MustCompile(`(?m)^\s*lameduck\s+(\S+)`)
	loops     = regexp.MustCompile(`(?:^|[\s;&|])(?:while|until|for)\s`)
)

// readExec reads what an exec hook does: it sleeps, and only what it sleeps before it stops the program is a pause.
func (p *pause) readExec(command []string) {
	p.kind, p.what, p.needs = pauseExec, "preStop exec", path.Base(command[0])
	script := strings.Join(command, " ")
	if slices.Contains(shells, p.needs) {
		script = strings.Join(command[1:], " ")
	}
	p.script = script
	p.readCalls(command)
	before := script
	if at := stops.FindStringIndex(script); at != nil {
		before = script[:at[0]+1]
	}
	switch found := sleeps.FindAllStringSubmatch(before, 100); {
	case loops.MatchString(before):
	case len(found) > 0:
		p.known = true
		for _, f := range found {
			d, _ := duration(f[1]+map[string]string{"": "s"}[f[2]]+f[2], time.Second)
			p.length = min(p.length+d, most)
		}
	case len(before) < len(script):
		p.known = true // it stops at once
	}
}

// stopsAtOnce tells of a hook that ends the program instead of pausing.
func (p pause) stopsAtOnce() bool { return p.kind == pauseExec && p.known && p.length == 0 }

// fails tells of a hook that can't run, so that SIGTERM comes at once.
func (p pause) fails(c *container) bool {
	return p.kind == pauseBroken || p.kind == pauseExec && (strings.Contains(p.needs, " ") || p.leans() && shellOf(c) == lacking)
}

// leans tells of a hook that runs what only an image with a userland has.
func (p pause) leans() bool {
	return p.kind == pauseExec && (slices.Contains(shells, p.needs) || p.needs == "sleep")
}

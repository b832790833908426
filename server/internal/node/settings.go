package node

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/eiderhq/eider"
)

// Settings are everything about a node that one may choose. Each has one name, that of its flag; its
// environment variable is EIDER_NAME, and its key in a file is the name. The zero value of every field
// means its default.
type Settings struct {
	GRPC string // where the native protocol is served, ip:port; "" means 127.0.0.1:8762, port 0 any free one
	HTTP string // where pages, JSON and metrics are served; "" means 127.0.0.1:8761

	Metrics string // where metrics are served, and then no longer on HTTP's address; "" means there

	Cert, Key    string // this node's certificate and its key, in PEM, for TLS on every port; "" means none
	ClientCA     string // the authority of client certificates, in PEM; "" means that none is asked for
	Tokens       string // the file of tokens and certificates that are let in, and their roles; "" asks nobody
	InsecureGRPC bool   // serves the native protocol beyond loopback without TLS or tokens
	InsecureHTTP bool   // serves JSON, events and metrics so
	Host         string // names, by commas, that requests may call this node by besides localhost and its certificate's
	DialNetworks string // networks, by commas, that are dialled besides a process' own address

	Node  string // this node's name; "" means the host's
	Fresh bool   // declares that nobody called before this node started: barriers and views are complete at once
	Data  string // the folder of what is kept across restarts, made if need be; "" keeps nothing

	Lease time.Duration // 0 means 20s; an instance that is silent for so long lapses
	Beat  time.Duration // 0 means 2s; what processes are told to beat at
	Cap   time.Duration // 0 means 8s; a drain waits no longer for one caller

	LogFormat string // text or json; "" means text
	LogLevel  string // debug, info, warn or error; "" means info

	MaxInstances       int // 0 means 200,000 known to this node
	MaxServices        int // 0 means 20,000
	MaxCallers         int // 0 means 50,000; half of them may poll, a fifth may be pollers of one token or address
	MaxHolds           int // 0 means 10,000 keys
	MaxConnections     int // 0 means 60,000 of the native protocol
	MaxHTTPConnections int // 0 means 10,000 at each port for HTTP, a tenth of them from one address
	MaxHTTPStreams     int // 0 means 64 event streams and waiting requests
	MaxStreams         int // 0 means 60,000
	MaxStreamInstances int // 0 means 1,000 that one process registers
	MaxStreamServices  int // 0 means 1,000 that one process follows
	RegisterRate       int // 0 means 1,000 new instances a second, twice as many at once
	ReattachRate       int // 0 means 5,000 known instances a second
	WatchRate          int // 0 means 2,000 new callers a second
	MaxFleetKeys       int // 0 means 10,000 that fleet breakers share records under
	FleetRate          int // 0 means 20,000 tells and swaps of fleet breakers a second

	MaxIdentityStreams   int // 0 means 20,000 of one token or certificate
	MaxIdentityCallers   int // 0 means 10,000
	MaxIdentityInstances int // 0 means 20,000
	IdentityRate         int // 0 means 2,000 registrations a second of one

	config  string // the file
	flags   map[string]*flag
	sources map[string]string // of what Load has set: what each is called there
}

// Where a node is served by default.
const (
	defaultGRPC = "127.0.0.1:8762"
	defaultHTTP = "127.0.0.1:8761"
)

// row is one setting: how it is named, explained, read and written.
type row struct {
	name, kind, about string
	set               func(text string) error
	get               func() string
}

// rows is the one table of settings.
func (s *Settings) rows() []row {
	return []row{
		address("grpc", &s.GRPC, defaultGRPC, "where the native protocol is served; beyond loopback with --cert and --tokens"),
		address("http", &s.HTTP, defaultHTTP, "where JSON, events and metrics are served; beyond loopback with --cert and --tokens"),
		optional(address("metrics", &s.Metrics, "127.0.0.1:8763", "where metrics are served, and then no longer at --http"), &s.Metrics),
		file("cert", &s.Cert, "this node's certificate (PEM), for TLS on every port; read again when it changes"),
		file("key", &s.Key, "the key of --cert (PEM)"),
		file("client-ca", &s.ClientCA, "the authority (PEM) of client certificates; --tokens gives them their roles"),
		file("tokens", &s.Tokens, "the file of who is let in, written by `eider tokens`; read again when it changes"),
		boolean("insecure-grpc", &s.InsecureGRPC, "serve --grpc beyond loopback without TLS or without tokens"),
		boolean("insecure-http", &s.InsecureHTTP, "serve --http and --metrics beyond loopback without TLS or without tokens"),
		list("host", &s.Host, "name,…", "names that HTTP requests may call this node by, besides localhost, its address and its certificate's", checkHost),
		list("dial-networks", &s.DialNetworks, "cidr,…", "networks to dial for evidence, besides the address that a process comes from", checkNetwork),
		word("node", &s.Node, "this node's name (default the host's)"),
		boolean("fresh", &s.Fresh, "declare that nobody called before this node started, so that drains needn't wait for them; not believed where --data holds something"),
		folder("data", &s.Data, "where instances and callers are kept across restarts, for this user alone (default nothing is kept)"),
		duration("lease", &s.Lease, time.Second, time.Hour, "an instance that is silent for so long lapses"),
		duration("beat", &s.Beat, 50*time.Millisecond, time.Minute, "what processes are told to beat at; a lease is at least three"),
		duration("cap", &s.Cap, 100*time.Millisecond, time.Hour, "a drain waits no longer for one caller, counted from the leave"),
		choice("log-format", &s.LogFormat, "how log lines are written", "text", "json"),
		choice("log-level", &s.LogLevel, "the least that is logged", "debug", "info", "warn", "error"),
		number("max-instances", &s.MaxInstances, "instances that this node keeps"),
		number("max-services", &s.MaxServices, "services that this node keeps"),
		number("max-callers", &s.MaxCallers, "callers that this node keeps; half of them may poll, a fifth may be pollers of one token or address"),
		number("max-holds", &s.MaxHolds, "keys that may be held at a time"),
		number("max-connections", &s.MaxConnections, "open connections of the native protocol; one more is closed"),
		number("max-http-connections", &s.MaxHTTPConnections, "open connections of --http, and of --metrics; a tenth of them from one address; one more ends the one that waits longest"),
		number("max-http-streams", &s.MaxHTTPStreams, "event streams and waiting requests of --http; one more is told to come back"),
		number("max-streams", &s.MaxStreams, "open streams of the native protocol; one more is told to come back"),
		number("max-stream-instances", &s.MaxStreamInstances, "instances that one process may register"),
		number("max-stream-services", &s.MaxStreamServices, "services that one process may follow"),
		number("register-rate", &s.RegisterRate, "new instances a second, twice as many at once; more are told to come back"),
		number("reattach-rate", &s.ReattachRate, "known instances that attach again a second, twice as many at once"),
		number("watch-rate", &s.WatchRate, "new callers' streams a second, twice as many at once"),
		number("max-fleet-keys", &s.MaxFleetKeys, "keys under which callers share breakers; those of one too many are on their own"),
		number("fleet-rate", &s.FleetRate, "what callers tell and swap of shared breakers a second, twice as many at once; a quarter of it from one address"),
		number("max-identity-streams", &s.MaxIdentityStreams, "open streams of one token or certificate"),
		number("max-identity-callers", &s.MaxIdentityCallers, "streams of one token or certificate that follow services"),
		number("max-identity-instances", &s.MaxIdentityInstances, "instances of one token or certificate"),
		number("identity-rate", &s.IdentityRate, "registrations a second of one token or certificate, twice as many at once"),
	}
}

// Defaults returns the settings of a node of which nothing was said.
func Defaults() Settings { return Settings{}.withDefaults() }

func (s Settings) withDefaults() Settings {
	s.GRPC = cmp.Or(s.GRPC, defaultGRPC)
	s.HTTP = cmp.Or(s.HTTP, defaultHTTP)
	s.Lease = cmp.Or(s.Lease, 20*time.Second)
	s.Beat = cmp.Or(s.Beat, 2*time.Second)
	s.Cap = cmp.Or(s.Cap, 8*time.Second)
	s.LogFormat = cmp.Or(s.LogFormat, "text")
	s.LogLevel = cmp.Or(s.LogLevel, "info")
	s.MaxInstances = cmp.Or(s.MaxInstances, 200_000)
	s.MaxServices = cmp.Or(s.MaxServices, 20_000)
	s.MaxCallers = cmp.Or(s.MaxCallers, 50_000)
	s.MaxHolds = cmp.Or(s.MaxHolds, 10_000)
	s.MaxConnections = cmp.Or(s.MaxConnections, 60_000)
	s.MaxHTTPConnections = cmp.Or(s.MaxHTTPConnections, 10_000)
	s.MaxHTTPStreams = cmp.Or(s.MaxHTTPStreams, 64)
	s.MaxStreams = cmp.Or(s.MaxStreams, 60_000)
	s.MaxStreamInstances = cmp.Or(s.MaxStreamInstances, 1_000)
	s.MaxStreamServices = cmp.Or(s.MaxStreamServices, 1_000)
	s.RegisterRate = cmp.Or(s.RegisterRate, 1_000)
	s.ReattachRate = cmp.Or(s.ReattachRate, 5_000)
	s.WatchRate = cmp.Or(s.WatchRate, 2_000)
	s.MaxFleetKeys = cmp.Or(s.MaxFleetKeys, 10_000)
	s.FleetRate = cmp.Or(s.FleetRate, 20_000)
	s.MaxIdentityStreams = cmp.Or(s.MaxIdentityStreams, 20_000)
	s.MaxIdentityCallers = cmp.Or(s.MaxIdentityCallers, 10_000)
	s.MaxIdentityInstances = cmp.Or(s.MaxIdentityInstances, 20_000)
	s.IdentityRate = cmp.Or(s.IdentityRate, 2_000)
	return s
}

// Check reports every setting that can't be, as one error; nil if all can.
func (s Settings) Check() error {
	s = s.withDefaults()
	var faults []error
	for _, r := range s.rows() {
		if err := r.set(r.get()); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", r.name, err))
		}
	}
	faults = append(faults, s.together()...)
	return invalid(append(faults, s.exposed()...))
}

// together holds settings to each other; each of them may be well by itself. A setting is called as its source
// calls it.
func (s *Settings) together() []error {
	var faults []error
	if least := 3 * s.Beat; s.Lease < least {
		faults = append(faults, fmt.Errorf("%s: %s is less than three beats of %s, so that one late beat would end an instance; give at least %s, or lower %s too",
			s.source("lease"), s.Lease, s.Beat, least, s.source("beat")))
	}
	if _, port, err := net.SplitHostPort(s.GRPC); err == nil && s.GRPC == s.HTTP && port != "0" {
		faults = append(faults, fmt.Errorf("%s: %s is where grpc is served already; choose another port", s.source("http"), s.HTTP))
	}
	for _, pair := range [][2]string{{"cert", "key"}, {"key", "cert"}, {"client-ca", "cert"}, {"client-ca", "tokens"}} {
		if s.said(pair[0]) && !s.said(pair[1]) {
			faults = append(faults, fmt.Errorf("%s: says nothing without --%s; give both", s.source(pair[0]), pair[1]))
		}
	}
	return faults
}

// said tells whether one of the settings of access was given.
func (s *Settings) said(name string) bool {
	return map[string]string{"cert": s.Cert, "key": s.Key, "client-ca": s.ClientCA, "tokens": s.Tokens}[name] != ""
}

// exposed finds addresses that other machines could reach although nobody there is asked who he is, or what he says
// could be read on the way.
func (s *Settings) exposed() []error {
	var faults []error
	for _, one := range []struct {
		name, address string
		insecure      bool
		flag          string
	}{{"grpc", s.GRPC, s.InsecureGRPC, "insecure-grpc"}, {"http", s.HTTP, s.InsecureHTTP, "insecure-http"}, {"metrics", s.Metrics, s.InsecureHTTP, "insecure-http"}} {
		if one.insecure || one.address == "" || s.Cert != "" && s.Tokens != "" {
			continue
		}
		if err := checkLoopback(one.address, one.flag); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", s.source(one.name), err))
		}
	}
	return faults
}

func invalid(faults []error) error {
	if len(faults) == 0 {
		return nil
	}
	return &eider.Error{Op: "settings", Kind: eider.Invalid, Err: errors.Join(faults...)}
}

// Logger returns the logger that the settings ask for.
func (s Settings) Logger(w io.Writer) *slog.Logger {
	var level slog.Level // info, if the word is none
	level.UnmarshalText([]byte(s.LogLevel))
	options := &slog.HandlerOptions{Level: level}
	if s.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// source is what a setting is called where its value comes from: --lease, EIDER_LEASE, or the file's name and its
// own; --lease if it has its default.
func (s *Settings) source(name string) string {
	if from := s.sources[name]; from != "" {
		return from
	}
	return "--" + name
}

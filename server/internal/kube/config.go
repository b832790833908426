package kube

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/balancers"
	"github.com/eiderhq/eider/window"
)

// mount is where the kubelet puts what a pod needs to ask the API.
const mount = "/var/run/secrets/kubernetes.io/serviceaccount"

// The defaults, as package drain has them: 8 + 20 + 2 = 30 seconds.
const (
	defaultGrace    = 30 * time.Second
	defaultInFlight = 20 * time.Second
	margin          = 2 * time.Second
	leastPause      = 5 * time.Second
)

// Config says which pod leaves and how long that may take. The zero value works in a pod.
type Config struct {
	API       string // https://host:port; "" means KUBERNETES_SERVICE_HOST and _PORT
	TokenFile string // read anew for each request; "" means the service account's
	CAFile    string // certificates that the API's is signed with; "" means the service account's
	Namespace string // "" means POD_NAMESPACE, else the service account's

	// Services whose slices are watched; none means all of the namespace that name the pod. Price of none: each leave
	// lists the namespace.
	Services []string

	Pod     string // "" means POD_NAME, else what the host is called
	Address string // the pod's IP; "" means POD_IP, else this end of the connection to the API

	Balancers []string          // load balancers that send to the pod, as balancers.Parse reads them; none means that all go through kube-proxy
	Set       map[string]string // settings of the preset kubernetes that aren't the defaults, as of `eider window --set`

	// Grace is what the platform grants from the hook's begin to the process' death (terminationGracePeriodSeconds). 0 means
	// EIDER_GRACE, else 30s. The pause never exceeds Grace − InFlight − 2s.
	Grace time.Duration

	// InFlight is what the program needs after the hook, on SIGTERM. 0 means 20s, or five sevenths of Grace − 2s if that is less.
	InFlight time.Duration

	Getenv   func(string) string    // nil means os.Getenv
	Hostname func() (string, error) // nil means os.Hostname
	Progress func(string)           // hears each line of progress; nil means nobody wants to know

	// Dial replaces the network; nil means TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// settings are a Config with every default filled in.
type settings struct {
	Config
	client *client // nil: there is nobody to ask
	pod    identity
	terms  terms
	inPod  bool // the environment is a pod's: the settings are a hook's, whoever got them wrong
}

// resolve fills defaults in and reports every fault at once; what is right of the settings holds nevertheless.
func (c Config) resolve() (s settings, fault error) {
	if c.Getenv == nil {
		c.Getenv = os.Getenv
	}
	if c.Hostname == nil {
		c.Hostname = os.Hostname
	}
	s.Config = c
	host, port := c.Getenv("KUBERNETES_SERVICE_HOST"), c.Getenv("KUBERNETES_SERVICE_PORT")
	s.inPod = host != ""
	var errs []error
	s.Services = slices.Clone(c.Services)
	for i, name := range s.Services {
		s.Services[i] = strings.ToLower(strings.TrimSpace(name))
		errs = append(errs, eider.CheckService(s.Services[i]))
	}
	all, faults := s.balancers()
	errs = append(errs, faults...)
	errs = append(errs, s.terms.derive(c.Set, all), s.terms.budget(c))
	pod, err := s.identity()
	s.pod = pod
	errs = append(errs, err)
	if s.API == "" && host != "" {
		if port == "" {
			port = "443"
		}
		s.API = "https://" + net.JoinHostPort(host, port)
	}
	return s, errors.Join(append(errs, s.connect())...)
}

func (s *settings) balancers() (all []balancers.Balancer, faults []error) {
	for _, text := range s.Balancers {
		some, wrong := balancers.Parse(text)
		all, faults = append(all, some...), append(faults, wrong...)
	}
	return all, faults
}

// connect makes the client.
func (s *settings) connect() error {
	if s.API == "" {
		return errors.New("this isn't a pod: KUBERNETES_SERVICE_HOST isn't set; --kube-api says where the API is")
	}
	base, err := url.Parse(s.API)
	if err != nil || base.Scheme != "https" || base.Host == "" || base.User != nil || base.RawQuery != "" {
		return fmt.Errorf("--kube-api %.100q is no address such as https://10.96.0.1:443; the token isn't sent without TLS", s.API)
	}
	orIn(&s.TokenFile, "token")
	orIn(&s.CAFile, "ca.crt")
	if s.Namespace == "" {
		s.Namespace = s.Getenv("POD_NAMESPACE")
	}
	if s.Namespace == "" {
		text, err := os.ReadFile(filepath.Join(mount, "namespace"))
		if err != nil {
			return fmt.Errorf("the pod's namespace can't be read: %w; give the pod its service account's token (automountServiceAccountToken), or say --kube-namespace", err)
		}
		s.Namespace = strings.TrimSpace(string(text))
	}
	if err := eider.CheckService(s.Namespace); err != nil || strings.Contains(s.Namespace, ".") {
		return fmt.Errorf("--kube-namespace %.100q is no name of a namespace", s.Namespace)
	}
	s.client, err = newClient(*base, s.Namespace, s.TokenFile, s.CAFile, s.Dial)
	return err
}

func orIn(file *string, name string) {
	if *file == "" {
		*file = filepath.Join(mount, name)
	}
}

// identity is what endpoints call this pod.
func (s *settings) identity() (i identity, err error) {
	i.name, i.ip = s.Pod, s.Address
	if i.name == "" {
		i.name = s.Getenv("POD_NAME")
	}
	i.given = i.name != ""
	if !i.given {
		i.name, _ = s.Hostname() // else the address is left
	}
	from := "--pod-ip"
	if i.ip == "" {
		i.ip, from = s.Getenv("POD_IP"), "POD_IP"
	}
	if i.ip != "" {
		ip, err := netip.ParseAddr(i.ip)
		if err != nil {
			return i, fmt.Errorf("%s %.60q is no IP address", from, i.ip)
		}
		i.ip = ip.Unmap().String()
	}
	return i, nil
}

// selector asks for the slices of the Services, or of any.
func (s *settings) selector() string {
	switch len(s.Services) {
	case 0:
		return serviceLabel
	case 1:
		return serviceLabel + "=" + s.Services[0]
	}
	return serviceLabel + " in (" + strings.Join(s.Services, ",") + ")"
}

// asked tells whether a Service is one that is watched: the API was told, and is looked after.
func (s *settings) asked(service string) bool {
	return service != "" && (len(s.Services) == 0 || slices.Contains(s.Services, service))
}

// trouble is what an error comes to; what isn't one that is known is a network's.
func (s *settings) trouble(err error) *trouble {
	if t, ok := errors.AsType[*trouble](err); ok {
		return t
	}
	return &trouble{kind: away, err: fmt.Errorf("the API can't be asked: %w", err)}
}

// terms are the times that a pause is made of.
type terms struct {
	whole window.Sum // from the hook's begin, or the last look, where nothing is seen
	rest  window.Sum // from the moment when the pod is seen not ready in every slice
	room  window.Room
}

// derive takes the window of a pod's removal apart: what comes before the API has it, and what comes after.
func (t *terms) derive(set map[string]string, all []balancers.Balancer) error {
	preset, err := window.Lookup("kubernetes")
	if err != nil {
		return err
	}
	forecast, err := preset.Derive(set, window.Fleet{})
	if err != nil {
		err = fmt.Errorf("--set: %w", err)
		if forecast, _ = preset.Derive(nil, window.Fleet{}); len(forecast.Planned.Terms) == 0 {
			return err
		}
	}
	whole := forecast.Planned.Terms
	var rest window.Sum
	for _, term := range whole {
		if term.Name == "kube-proxy" { // the others are the API's own
			rest = append(rest, term)
		}
	}
	wholes, rests := []window.Sum{whole}, []window.Sum{rest}
	for _, b := range all {
		behind, then := window.Sum(nil), window.Sum(nil)
		if b.Behind {
			behind, then = whole, rest
		}
		wholes = append(wholes, slices.Concat(behind, b.Terms))
		rests = append(rests, slices.Concat(then, b.Terms))
	}
	t.whole, t.rest = window.Longest(wholes...), window.Longest(rests...)
	late := window.Fixed("margin", margin, "timers are late, and nodes take time to write their rules")
	t.whole, t.rest = append(slices.Clip(t.whole), late), append(slices.Clip(t.rest), late)
	if short := leastPause - t.whole.Worst(); short > 0 {
		t.whole = append(t.whole, window.Fixed("least pause", short, "a shorter one trusts defaults that nobody promises; 5s lost nothing on real nodes"))
	}
	return err
}

// budget divides the grace as package drain does.
func (t *terms) budget(c Config) error {
	var errs []error
	grace, graceFrom := c.Grace, "--grace"
	if grace == 0 {
		grace, graceFrom = defaultGrace, "default"
		if text := c.Getenv("EIDER_GRACE"); text != "" {
			if d, err := time.ParseDuration(text); err == nil && d > 0 {
				grace, graceFrom = d, "EIDER_GRACE"
			} else {
				errs = append(errs, fmt.Errorf("EIDER_GRACE: %.40q is no time above 0; write it as in 45s", text))
			}
		}
	}
	if grace <= margin {
		errs = append(errs, fmt.Errorf("grace: %s (%s) leaves nothing beside the margin of %s; grant more", grace, graceFrom, margin))
		grace, graceFrom = defaultGrace, "default"
	}
	flight, flightFrom := c.InFlight, "--in-flight"
	if flight < 0 {
		errs = append(errs, fmt.Errorf("--in-flight: %s is below 0", flight))
		flight = 0
	}
	if flight == 0 {
		flight, flightFrom = defaultInFlight, "default"
		if share := (grace - margin) * 5 / 7; share < flight {
			flight, flightFrom = share, "five sevenths of grace − margin"
		}
	}
	t.room = window.Room{Whole: window.Fixed("grace", grace, graceFrom), Parts: window.Sum{
		window.Fixed("in-flight deadline", flight, flightFrom), window.Fixed("margin", margin, "fixed")}}
	if short := t.room.Short(); short > 0 {
		errs = append(errs, fmt.Errorf("--in-flight: %s and the margin of %s exceed the grace of %s (%s) by %s, so that a slow request would be killed; lower it or grant more grace",
			flight, margin, grace, graceFrom, short))
		t.room.Parts[0] = window.Fixed("in-flight deadline", (grace-margin)*5/7, "five sevenths of grace − margin")
	}
	return errors.Join(errs...)
}

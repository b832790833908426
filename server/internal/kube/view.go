package kube

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// identity is how endpoints name this pod.
type identity struct {
	name  string // of the pod, or what the host is called
	given bool   // somebody has said so: a host may be called otherwise than its pod
	ip    string // "" means that of the connection to the API
}

func (i identity) said() string {
	if i.name == "" {
		return i.ip
	}
	return i.name
}

// longestHost is what a host's name is cut to; a pod's may be longer.
const longestHost = 63

// is tells whether an endpoint is this pod. A name that was given rules: pods on the host's network have their address in
// common. A host's name is a guess, which its address confirms or corrects.
func (i identity) is(e endpoint, local string) bool {
	ip := i.ip
	if ip == "" {
		ip = local
	}
	byAddress := ip != "" && slices.Contains(e.Addresses, ip)
	if e.TargetRef == nil || e.TargetRef.Kind != "Pod" {
		return byAddress
	}
	if i.given {
		return e.TargetRef.Name == i.name
	}
	cut := len(i.name) >= longestHost-1 && strings.HasPrefix(e.TargetRef.Name, i.name) // …-x-y may lose a dash at its end, too
	return byAddress || i.name != "" && (e.TargetRef.Name == i.name || cut)
}

// digest is what a slice says that concerns this pod.
type digest struct {
	service string
	ready   int // endpoints that are this pod and get what is sent to the Service
	leaving int // … that are this pod, and don't
	forced  int // of ready: those that leave or can't serve, so that the Service publishes them whatever they are
	others  int // ready endpoints that are somebody else
}

// in reads a slice; ours is false where it doesn't name this pod.
func (i identity) in(s slice, local string) (d digest, ours bool) {
	d.service = s.Metadata.Labels[serviceLabel]
	for _, e := range s.Endpoints {
		ready := e.Conditions.Ready == nil || *e.Conditions.Ready
		terminating := e.Conditions.Terminating != nil && *e.Conditions.Terminating
		serving := e.Conditions.Serving == nil || *e.Conditions.Serving
		switch {
		case !i.is(e, local):
			if ready && !terminating {
				d.others++
			}
			continue
		case ready && terminating:
			d.forced++
		case ready && !serving:
			d.forced++
			d.ready++
		case ready:
			d.ready++
		default:
			d.leaving++
		}
		ours = true
	}
	return d, ours
}

// sight is what is known of the slices, by their names. The zero value is empty.
type sight struct {
	slices map[string]digest
	named  map[string]bool // the pod has been in the Service, or is
}

// most bounds how many slices are kept in mind: 100 endpoints each make a service of a million.
const most = 10_000

func (s *sight) put(name string, d digest, ours bool) error {
	if s.slices == nil {
		s.slices, s.named = map[string]digest{}, map[string]bool{}
	}
	if _, known := s.slices[name]; !known && len(s.slices) >= most {
		return &trouble{kind: strange, err: fmt.Errorf("the API has more than %d slices to tell of; name the Service with --service", most)}
	}
	s.slices[name] = d
	if ours {
		s.named[d.service] = true
	}
	return nil
}

func (s *sight) drop(name string) { delete(s.slices, name) }

// view is how it stands for this pod.
type view struct {
	any      bool     // there are slices of the Services asked for
	services []string // that name this pod, or did
	slices   int      // that name it
	ready    int      // of them: those that have it ready
	forced   []string // Services that have it ready though it leaves, or can't serve: publishNotReadyAddresses
	alone    []string // Services in which nobody else is ready: nodes go on sending to this pod
}

// out tells whether nothing new is sent to the pod, as far as the API has it.
func (v view) out() bool { return len(v.services) > 0 && v.ready == 0 }

// judge adds the slices up: an endpoint may be in two of a Service's, and a Service of two families has two for each pod.
func (s *sight) judge() view {
	v := view{any: len(s.slices) > 0, services: slices.Sorted(maps.Keys(s.named))}
	others, forced, in := map[string]int{}, map[string]bool{}, map[string]bool{}
	for _, d := range s.slices {
		others[d.service] += d.others
		if d.ready+d.leaving+d.forced > 0 {
			v.slices++
			in[d.service] = true
		}
		if d.ready > 0 {
			v.ready++
		}
		forced[d.service] = forced[d.service] || d.forced > 0
	}
	for _, name := range v.services {
		if forced[name] {
			v.forced = append(v.forced, name)
		}
		if in[name] && others[name] == 0 { // of one that names it no more nothing is sent to it
			v.alone = append(v.alone, name)
		}
	}
	return v
}

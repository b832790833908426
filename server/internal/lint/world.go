package lint

import (
	"cmp"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/eiderhq/eider/window"
)

// world is all that was read, joined: which Service selects which workload, which ConfigMap it reads.
type world struct {
	options   Options
	rules     []Rule
	size      int // of the sources that were read
	files     []*file
	objects   []*object
	traces    map[string][]trace // by the source, in the order of its lines
	faults    []Fault
	named     map[place]*object
	selectors map[label][]*object // Services by the first label of their selector
	scalers   map[place]*object   // by what they scale
	rollouts  map[place]*object   // by the workload whose pods they take
	behind    map[place][]*object // by the Service: Ingresses and policies that name it
	monitors  []*object           // that have Prometheus ask Spring's endpoint for it
	unchecked map[string]int      // objects that make pods of kinds that no rule knows, by kind
	assumed   string              // settings of the first workload that are taken for its callers'
	assuming  int                 // such workloads
}

// place is what an object's name is unique in.
type place struct{ kind, namespace, name string }

type label struct{ namespace, key, value string }

// Bounds on what is looked at of one workload.
const (
	maxServices   = 100
	maxCandidates = 2000 // Services that begin with a label of its
	maxContainers = 100
	maxMaps       = 100 // ConfigMaps
	maxKinds      = 20  // that aren't looked at, of all sources
	maxFronts     = 100 // Ingresses and policies before one Service; monitors of all
)

// workload is an object that makes pods, and what its pods are.
type workload struct {
	*object
	world      *world
	rolled     *object // what says how its pods are replaced: itself, or a Rollout that takes its template
	template   node    // metadata and spec of its pods
	pod        node    // their spec
	services   []*object
	containers []*container // ordinary ones
	sidecars   []*container // init containers that go on running: they stop after the ordinary ones
	main       *container   // the one that answers what a Service sends
	scaler     *object      // HorizontalPodAutoscaler
	registered bool         // the pods enter Eureka
	spring     bool         // the program is Spring Boot's, as far as one sees

	pauses  time.Duration // what is advised, once asked for
	window  window.Sum    // how long its pods are still called, once asked for
	assumed []string      // settings of its own that are taken for its callers'
	heard   window.Sum    // of it the callers by Eureka, once asked for
}

// container is one of a pod's.
type container struct {
	node
	name, image string
	settings    layers
	hook        *pause // once asked for
}

// workloads are those that serve, in the order of reading, each with what belongs to it, and for its turn only.
func (w *world) workloads() iter.Seq[*workload] {
	return func(yield func(*workload) bool) {
		w.index()
		last := reading{}
		for _, o := range w.objects {
			if at, ok := o.refers(); ok && w.named[at] == nil {
				w.pass(o.kind + " (its " + short(at.kind) + " isn't here)")
			}
			if !o.pods {
				continue
			}
			o.node = last.of(o)
			load := w.join(o)
			if load.serves() && !yield(load) {
				return
			}
			o.node = node{}
		}
	}
}

// reading is the document that was read last: a list holds many objects.
type reading struct {
	doc  *document
	root *yaml.Node
}

// of reads an object's tree again.
func (r *reading) of(o *object) node {
	if r.doc != o.doc {
		root, err := o.doc.read()
		if err != nil {
			return node{} // it was read before
		}
		r.doc, r.root = o.doc, root
	}
	n := node{r.root}.solid()
	for _, i := range o.at {
		if items := n.get("items"); items.ok() {
			n = items
		}
		n = node{n.Content[i]}.solid()
	}
	return n
}

// join finds what belongs to a workload.
func (w *world) join(o *object) *workload {
	load := newWorkload(o)
	load.world = w
	load.rolled = cmp.Or(w.rollouts[place{o.kind, o.namespace, o.name}], o)
	load.scaler = w.scalers[place{load.rolled.kind, o.namespace, load.rolled.name}]
	for key, value := range load.template.get("metadata", "labels").pairs() {
		for i, service := range w.selectors[label{o.namespace, key, value.text()}] {
			if i < maxCandidates && len(load.services) < maxServices && selects(service, load) {
				load.services = append(load.services, service)
			}
		}
	}
	load.open()
	return load
}

// passOver notes an object that isn't looked at though it makes pods which may serve: of a kind that lint doesn't know one would
// think that nothing was found.
func (w *world) passOver(o *object) {
	known := []string{"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob", "Pod", "PodTemplate"}
	if _, refers := o.refers(); refers || slices.Contains(known, o.kind) || !o.get("spec", "template", "spec", "containers").ok() {
		return // a Rollout that refers to a workload is looked at as that, if it is here
	}
	w.pass(o.kind)
}

func (w *world) pass(kind string) {
	if w.unchecked == nil {
		w.unchecked = map[string]int{}
	}
	if _, ok := w.unchecked[kind]; ok || len(w.unchecked) < maxKinds {
		w.unchecked[kind]++
	}
}

func (w *world) index() {
	w.named, w.scalers, w.rollouts, w.selectors, w.behind = map[place]*object{}, map[place]*object{}, map[place]*object{}, map[label][]*object{}, map[place][]*object{}
	for _, o := range w.objects {
		w.named[place{o.kind, o.namespace, o.name}] = o
		switch o.kind {
		case "Service":
			for key, value := range o.get("spec", "selector").pairs() {
				at := label{o.namespace, key, value.text()}
				w.selectors[at] = append(w.selectors[at], o)
				break
			}
		case "Ingress":
			for _, name := range o.backends() {
				w.leads(o, name)
			}
		case "GCPBackendPolicy":
			w.leads(o, o.get("spec", "targetRef", "name").text())
		case "Rollout":
			if at, ok := o.refers(); ok {
				w.rollouts[at] = o
			}
		case "ServiceMonitor", "PodMonitor":
			if o.asksSpring() && len(w.monitors) < maxFronts {
				w.monitors = append(w.monitors, o)
			}
		case "HorizontalPodAutoscaler":
			target := o.get("spec", "scaleTargetRef")
			w.scalers[place{target.get("kind").text(), o.namespace, target.get("name").text()}] = o
		}
	}
}

// leads notes that an object stands before a Service.
func (w *world) leads(o *object, service string) {
	at := place{"Service", o.namespace, service}
	if len(w.behind[at]) < maxFronts {
		w.behind[at] = append(w.behind[at], o)
	}
}

// backends are the Services that an Ingress leads to.
func (o *object) backends() (names []string) {
	add := func(backend node) {
		if name := backend.get("service", "name").text(); name != "" && !slices.Contains(names, name) && len(names) < maxServices {
			names = append(names, name)
		}
	}
	add(o.get("spec", "defaultBackend"))
	for rule := range o.get("spec", "rules").each() {
		for path := range rule.get("http", "paths").each() {
			add(path.get("backend"))
		}
	}
	return names
}

// newWorkload is nil for what makes no pods that stay: jobs end by themselves, a ReplicaSet is its Deployment's.
func newWorkload(o *object) *workload {
	load := &workload{object: o, template: o.get("spec", "template")}
	switch o.kind {
	case "Deployment", "StatefulSet", "DaemonSet", "CloneSet":
	case "Rollout":
		if !o.argo() {
			return nil
		}
	case "Pod":
		load.template = o.node
		if policy := o.get("spec", "restartPolicy").text(); policy == "Never" || policy == "OnFailure" {
			return nil
		}
	default:
		return nil
	}
	load.pod = load.template.get("spec")
	if o.annotation("helm.sh/hook").ok() {
		return nil
	}
	for c := range load.pod.get("containers").each() {
		if len(load.containers) == maxContainers {
			break
		}
		load.containers = append(load.containers, &container{node: c, name: c.get("name").text(), image: c.get("image").text()})
	}
	for c := range load.pod.get("initContainers").each() {
		if c.get("restartPolicy").text() == "Always" && len(load.sidecars) < maxContainers {
			load.sidecars = append(load.sidecars, &container{node: c, name: c.get("name").text(), image: c.get("image").text()})
		}
	}
	// Without one image it is a patch of an overlay, which says only what it changes.
	if !slices.ContainsFunc(load.containers, func(c *container) bool { return c.image != "" }) {
		return nil
	}
	return load
}

// selects tells whether a Service's selector fits the labels of a workload's pods. An empty one selects nothing: its
// endpoints are written by hand.
func selects(service *object, load *workload) bool {
	any := false
	labels := load.template.get("metadata", "labels")
	for key, value := range service.get("spec", "selector").pairs() {
		if any = true; labels.get(key).text() != value.text() {
			return false
		}
	}
	return any
}

// open reads the settings of the containers and finds the one that serves.
func (l *workload) open() {
	for _, c := range slices.Concat(l.containers, l.sidecars) {
		c.settings = l.settingsOf(c)
	}
	l.main = l.containers[0]
	rank, targets := 0, l.targets()
	for _, c := range l.containers {
		switch r := answers(c, targets); {
		case r > rank:
			l.main, rank = c, r
		}
	}
	l.registered = l.registers()
	l.spring = l.registered || l.boots()
}

// answers ranks how surely a container is what a Service sends to: 3 its port by name or number, 2 a port of an
// ordinary program, 1 a port.
func answers(c *container, targets map[string]bool) (rank int) {
	for port := range c.get("ports").each() {
		if targets[port.get("name").text()] || targets[port.get("containerPort").text()] {
			return 3
		}
		rank = 1
	}
	if rank > 0 && !outbound(c) {
		return 2
	}
	return rank
}

// targets are the ports that Services send to, by name or number.
func (l *workload) targets() map[string]bool {
	targets := map[string]bool{}
	for _, service := range l.services {
		for port := range service.get("spec", "ports").each() {
			if !quiet(port.get("name").text()) {
				targets[cmp.Or(port.get("targetPort").text(), port.get("port").text())] = true
			}
		}
	}
	delete(targets, "")
	return targets
}

// serves tells whether somebody calls the pods of a workload, and so may call one that leaves: a Service selects them,
// they open ports, or they enter a registry. What opens ports for probes and for Prometheus alone isn't called by
// anybody who minds.
func (l *workload) serves() bool {
	for _, service := range l.services {
		ports := 0
		for port := range service.get("spec", "ports").each() {
			ports++
			if !quiet(port.get("name").text()) {
				return true
			}
		}
		if ports == 0 {
			return true
		}
	}
	if len(l.services) > 0 {
		return false
	}
	for _, c := range l.containers {
		for port := range c.get("ports").each() {
			// An agent of every node is called by the node's address, or by nobody.
			reached := l.kind != "DaemonSet" || port.get("hostPort").ok() || l.pod.get("hostNetwork").yes()
			if reached && !quiet(port.get("name").text()) {
				return true
			}
		}
	}
	return l.registered
}

// quiet tells of a port's name whether only probes and scrapers call it, who ask again.
func quiet(name string) bool {
	for _, word := range []string{"metrics", "prometheus", "health", "probe", "liveness", "readiness", "monitor"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// annotation looks at the pods' metadata first, then at the workload's own.
func (l *workload) annotation(key string) node {
	if n := l.template.get("metadata", "annotations", key); n.ok() {
		return n
	}
	return l.object.annotation(key)
}

// replicas is how many pods there are at the least, and whether that is known.
func (l *workload) replicas() int {
	if l.scaler != nil {
		if n, ok := l.scaler.get("spec", "minReplicas").whole(); ok {
			return n
		}
		return 1
	}
	if n, ok := l.rolled.get("spec", "replicas").whole(); ok {
		return n
	}
	return 1
}

// share is a number of pods, or a percentage of all.
func share(n node, of int, up bool, otherwise string) int {
	text := n.text()
	if text == "" {
		text = otherwise
	}
	if percent, ok := strings.CutSuffix(text, "%"); ok {
		p, _ := strconv.Atoi(percent)
		if up {
			return (of*p + 99) / 100
		}
		return of * p / 100
	}
	i, _ := strconv.Atoi(text)
	return i
}

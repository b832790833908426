package lint

import (
	"encoding/json"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// setting is a value that a program is given and where that is written.
type setting struct {
	value string
	name  string // as it is written there: "SPRING_LIFECYCLE_TIMEOUT_PER_SHUTDOWN_PHASE"
	file  string
	line  int
}

func (s setting) ok() bool { return s.name != "" }

// settings are read at one place, by key: letters and digits alone in lower case, since Spring and its like take one
// property in many spellings (server.shutdown, SERVER_SHUTDOWN, serverShutdown).
type settings map[string]setting

// layers are all settings of a container, the strongest place first.
type layers []settings

func key(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
}

// get returns the first of some names that is set, at the strongest place.
func (l layers) get(names ...string) setting {
	for _, name := range names {
		name = key(name)
		for _, s := range l {
			if found, ok := s[name]; ok {
				return found
			}
		}
	}
	return setting{}
}

func (s settings) put(name, value string, line int) {
	value = strings.TrimSpace(value)
	if inner, ok := strings.CutPrefix(value, "${"); ok {
		if _, otherwise, ok := strings.Cut(strings.TrimSuffix(inner, "}"), ":"); ok {
			value = otherwise // Spring's placeholder with a default
		}
	}
	s[key(name)] = setting{value: value, name: name, line: line}
}

// settingsOf collects what a container is given, ranked as Spring ranks it: arguments, SPRING_APPLICATION_JSON, -D, the
// environment, files of ConfigMaps.
func (l *workload) settingsOf(c *container) layers {
	environment := settings{}
	for env := range c.get("env").each() {
		value := env.get("value")
		if ref := env.get("valueFrom", "configMapKeyRef"); ref.ok() {
			value = l.configMap(ref.get("name").text()).value(ref.get("key").text())
		}
		environment.put(env.get("name").text(), value.text(), env.get("name").line())
	}
	ranked := layers{environment}
	for from := range c.get("envFrom").each() {
		if m := l.configMap(from.get("configMapRef", "name").text()); m != nil && !from.get("prefix").ok() && len(ranked) < maxMaps {
			ranked = append(ranked, m.variables())
		}
	}
	for _, m := range l.mounted() {
		ranked = append(ranked, m.configuration())
	}
	defined := settings{}
	for _, name := range []string{"JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "JAVA_OPTS"} {
		v := ranked.get(name)
		defined.readWords("-D", strings.Fields(v.value), v.line)
	}
	words := append(c.get("command").texts(), c.get("args").texts()...)
	line := max(c.get("command").line(), c.get("args").line())
	defined.readWords("-D", words, line)
	inline := settings{}
	if v := ranked.get("SPRING_APPLICATION_JSON"); json.Valid([]byte(v.value)) {
		inline.readYAML([]byte(v.value), v.line, v.line)
	}
	arguments := settings{}
	arguments.readWords("-", words, line)
	for _, own := range []settings{environment, defined, inline, arguments} {
		own.stand(l.file)
	}
	return append(layers{arguments, inline, defined}, ranked...)
}

// value is one of a ConfigMap's, absent in one that isn't here.
func (o *object) value(key string) node {
	if o == nil {
		return node{}
	}
	return o.get("data", key)
}

// stand says which file the settings stand in.
func (s settings) stand(f *file) {
	for k, v := range s {
		v.file = f.name
		s[k] = v
	}
}

// variables are the data of a ConfigMap as an environment.
func (o *object) variables() settings {
	if o.asVariables == nil {
		o.asVariables = settings{}
		for name, value := range o.get("data").pairs() {
			o.asVariables.put(name, value.text(), value.line())
		}
		o.asVariables.stand(o.file)
	}
	return o.asVariables
}

// configuration is what Spring reads in the files of a ConfigMap.
func (o *object) configuration() settings {
	if o.asFiles == nil {
		o.asFiles = settings{}
		for name, value := range o.get("data").pairs() {
			o.asFiles.readFile(name, value)
		}
		o.asFiles.stand(o.file)
	}
	return o.asFiles
}

// readWords takes -Dname=value, --name=value, --name value.
func (s settings) readWords(prefix string, words []string, line int) {
	for i, word := range words {
		if !strings.HasPrefix(word, prefix) {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(word, "-D"), "=")
		if !ok && i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") {
			value = words[i+1] // --timeout 30
		}
		if name != "" {
			s.put(name, value, line)
		}
	}
}

// configMap is one by its name, nil if it isn't here.
func (l *workload) configMap(name string) *object {
	m := l.world.named[place{"ConfigMap", l.namespace, name}]
	if m != nil && m.Node == nil {
		m.node = (&reading{}).of(m)
	}
	return m
}

// mounted are the ConfigMaps among the pod's volumes.
func (l *workload) mounted() (maps []*object) {
	add := func(name string) {
		if m := l.configMap(name); m != nil && len(maps) < maxMaps && !slices.Contains(maps, m) {
			maps = append(maps, m)
		}
	}
	for volume := range l.pod.get("volumes").each() {
		add(volume.get("configMap", "name").text())
		for part := range volume.get("projected", "sources").each() {
			add(part.get("configMap", "name").text())
		}
	}
	return maps
}

// readFile reads the configuration that Spring reads.
func (s settings) readFile(name string, text node) {
	base := path.Base(name)
	if !strings.HasPrefix(base, "application") && !strings.HasPrefix(base, "bootstrap") {
		return
	}
	switch path.Ext(base) {
	case ".yaml", ".yml":
		for doc := range split([]byte(text.text())) {
			s.readYAML(doc.text, text.line()+doc.first, 0)
		}
	case ".properties":
		for i, row := range strings.Split(text.text(), "\n") {
			row = strings.TrimSpace(row)
			if at := strings.IndexAny(row, "=:"); at > 0 && row[0] != '#' && row[0] != '!' {
				s.put(strings.TrimSpace(row[:at]), row[at+1:], text.line()+1+i)
			}
		}
	}
}

// readYAML flattens a document within a scalar whose first line is given; line, unless 0, is said of all.
func (s settings) readYAML(text []byte, first, line int) {
	root, err := parse(text)
	if err != nil {
		return // a configuration that its program can't read either
	}
	s.flatten("", node{root}, first-1, line, maxLists)
}

func (s settings) flatten(prefix string, n node, first, line, depth int) {
	if depth == 0 {
		return
	}
	for name, value := range n.pairs() {
		if value.Node != nil && value.Kind == yaml.MappingNode {
			s.flatten(prefix+name+".", value, first, line, depth-1)
			continue
		}
		at := line
		if at == 0 {
			at = first + value.line()
		}
		text := value.text()
		if value.Node != nil && value.Kind == yaml.SequenceNode && len(value.Content) <= maxItems {
			text = strings.Join(value.texts(), ",")
		}
		s.put(prefix+name, text, at)
	}
}

// maxItems bounds the list that is one setting.
const maxItems = 100

// seconds reads how long a setting says, a bare number being of unit.
func (s setting) duration(unit time.Duration) (time.Duration, bool) { return duration(s.value, unit) }

// most is longer than any grace period: what is longer yet is written wrong, or means for ever.
const most = 1000 * time.Hour

// duration reads "20s", "20", "PT20S", "1m30s".
func duration(text string, unit time.Duration) (time.Duration, bool) {
	text = strings.ToLower(strings.TrimSpace(text))
	text = strings.ReplaceAll(strings.TrimPrefix(text, "pt"), " ", "")
	if d, err := time.ParseDuration(text); err == nil && d >= 0 && d < most && text != "0" {
		return d, true
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil && f >= 0 && f < float64(most/unit) {
		return time.Duration(f * float64(unit)), true
	}
	return 0, false
}

// ending is the setting whose key ends so: of programs that have one for each of their ports.
func (s settings) ending(suffix string) (found setting) {
	for k, v := range s {
		if strings.HasSuffix(k, suffix) && (!found.ok() || v.name < found.name) {
			found = v
		}
	}
	return found
}

func (s setting) is(suffix string) bool { return strings.HasSuffix(key(s.name), suffix) }

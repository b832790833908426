package node

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// flag keeps what was typed until Load, which judges all sources at once.
type flag struct {
	kind, text, def string
	given           bool
}

func (f *flag) Set(text string) error {
	f.text, f.given = text, true
	return nil
}

func (f *flag) Type() string { return f.kind }

func (f *flag) String() string {
	if f.given {
		return f.text
	}
	return f.def
}

// Flags adds a flag for each setting, and --config for the file. Parsing them never fails on a value:
// [Settings.Load] reads them and says what is wrong with any, beside what is wrong elsewhere.
func (s *Settings) Flags(fs *pflag.FlagSet) {
	s.flags = make(map[string]*flag)
	shown := Defaults()
	for _, r := range shown.rows() {
		f := &flag{kind: r.kind, def: r.get()}
		s.flags[r.name] = f
		added := fs.VarPF(f, r.name, "", r.about)
		if r.kind == "bool" {
			added.NoOptDefVal = "true"
			f.def = "false"
		}
	}
	s.flags["config"] = &flag{kind: "file"}
	fs.Var(s.flags["config"], "config", "a YAML file of these settings; what is given as flag or EIDER_… rules over it")
}

// EnvName returns the environment variable of a setting: EIDER_LOG_FORMAT for log-format.
func EnvName(setting string) string {
	return "EIDER_" + strings.ToUpper(strings.ReplaceAll(setting, "-", "_"))
}

// maxFile bounds a settings file, in bytes.
const maxFile = 1 << 20

// Load fills the settings in: a flag rules over its environment variable, that over the file, that over
// the default. An empty variable counts as none. Every fault of every source is reported at once, with
// where it stands, also in what another source rules over.
func (s *Settings) Load(getenv func(string) string) error {
	var faults []error
	path := getenv(EnvName("config"))
	if f := s.flags["config"]; f != nil && f.given {
		path = f.text
	}
	*s = Settings{config: path, flags: s.flags, sources: make(map[string]string)}.withDefaults()
	rows := make(map[string]row)
	for _, r := range s.rows() {
		rows[r.name] = r
	}
	if path != "" {
		faults = append(faults, s.loadFile(path, rows)...)
	}
	for _, r := range s.rows() {
		f := s.flags[r.name]
		typed := f != nil && f.given
		// EIDER_HTTP is for those too who ask a registry: what is well there is no fault where --http is given.
		if text := getenv(EnvName(r.name)); text != "" && !(typed && r.name == "http") {
			s.sources[r.name] = EnvName(r.name)
			if err := r.set(text); err != nil {
				if r.name == "http" {
					err = fmt.Errorf("%w; it names the registry to ask as well, so give the server its own by --http", err)
				}
				faults = append(faults, fmt.Errorf("%s: %w", EnvName(r.name), err))
			}
		}
		if typed {
			s.sources[r.name] = "--" + r.name
			if err := r.set(f.text); err != nil {
				faults = append(faults, fmt.Errorf("--%s: %w", r.name, err))
			}
		}
	}
	if len(faults) == 0 { // else what is left of the values says nothing
		faults = s.together()
	}
	return invalid(append(faults, s.exposed()...))
}

func (s *Settings) loadFile(path string, rows map[string]row) []error {
	info, err := os.Stat(path)
	if err == nil && info.Size() > maxFile {
		err = fmt.Errorf("%s has %d bytes, at most %d are read", path, info.Size(), maxFile)
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return []error{fmt.Errorf("config: %w; name a file that this user may read", err)}
	}
	from := make(map[string]row, len(rows))
	for name, r := range rows {
		set := r.set
		r.set = func(text string) error {
			s.sources[name] = path + ": " + name
			return set(text)
		}
		from[name] = r
	}
	return readFile(path, data, from)
}

package node

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/eiderhq/eider"
)

// load parses flags, an environment and a file, as the server command does.
func load(t *testing.T, file string, env map[string]string, args ...string) (Settings, error) {
	t.Helper()
	var s Settings
	fs := pflag.NewFlagSet("server", pflag.ContinueOnError)
	s.Flags(fs)
	if file != "" {
		path := filepath.Join(t.TempDir(), "eider.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", path)
	}
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	err := s.Load(func(name string) string { return env[name] })
	return s, err
}

func public(s Settings) Settings {
	s.config, s.flags, s.sources = "", nil, nil
	return s
}

func TestFlagRulesOverEnvironmentOverFileOverDefault(t *testing.T) {
	file := "lease: 31s\nbeat: 1s\ncap: 5s\n# a comment\nmax-callers: 3\nfresh: true\n"
	env := map[string]string{"EIDER_LEASE": "32s", "EIDER_BEAT": "1100ms", "EIDER_LOG_FORMAT": ""}
	got, err := load(t, file, env, "--lease", "33s", "--log-level=debug")
	if err != nil {
		t.Fatal(err)
	}
	want := Defaults()
	want.Lease, want.Beat, want.Cap = 33*time.Second, 1100*time.Millisecond, 5*time.Second
	want.MaxCallers, want.Fresh, want.LogLevel = 3, true, "debug"
	if diff := cmp.Diff(want, public(got), cmp.AllowUnexported(Settings{})); diff != "" {
		t.Error(diff)
	}
}

func TestFlagsWithoutValuesAndFalse(t *testing.T) {
	if s, err := load(t, "", nil, "--fresh"); err != nil || !s.Fresh {
		t.Errorf("--fresh: %v, %v", s.Fresh, err)
	}
	if s, err := load(t, "fresh: true", nil, "--fresh=false"); err != nil || s.Fresh {
		t.Errorf("--fresh=false over a file's true: %v, %v", s.Fresh, err)
	}
}

func TestEveryFaultOfEverySourceIsReportedAtOnce(t *testing.T) {
	file := strings.Join([]string{
		"lease: 20",       // 1: no unit
		"grcp: 127.0.0.1", // 2: unknown, near
		"cap: [1s]",       // 3: a list
		"cap: 9s",         // 4: well, but 3 was first
		"fresh: yes",      // 5: a word
		"max-callers: many",
		"http:",
		"http: 127.0.0.1:0", // 8: a duplicate of 7
		"log-format: &x text",
		"elephants: 3",
	}, "\n")
	env := map[string]string{"EIDER_GRPC": "0.0.0.0:8762", "EIDER_WATCH_RATE": "0"}
	_, err := load(t, file, env, "--log-level", "loud", "--beat=1h", "--node", "a/b")
	if eider.KindOf(err) != eider.Invalid {
		t.Fatalf("%v", err)
	}
	text := err.Error()
	for _, want := range []string{
		`eider.yaml:1: lease: "20" is no duration; write a number and a unit`,
		`eider.yaml:2: "grcp" is no setting; did you mean grpc?`,
		`eider.yaml:3: cap: must be one plain duration`,
		`eider.yaml:4: cap is set in line 3 already`,
		`eider.yaml:5: fresh: must be a bool, "yes" is a str`,
		`eider.yaml:6: max-callers: must be a number, "many" is a str`,
		`eider.yaml:7: http: has no value`,
		`eider.yaml:8: http is set in line 7 already`,
		`eider.yaml:9: log-format: must be one plain`,
		`eider.yaml:10: "elephants" is no setting; eider server --help lists them`,
		`EIDER_GRPC: "0.0.0.0:8762" could be reached from other machines`,
		`EIDER_WATCH_RATE: 0 is out of bounds; it may be 1 to`,
		`--log-level: "loud" is none of debug, info, warn, error`,
		`--beat: 1h is out of bounds; it may be 50ms to 1m0s`,
		`--node: "a/b" must have`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("missing: %s", want)
		}
	}
	if got := strings.Count(text, "\n") + 1; got != 15 {
		t.Errorf("%d faults:\n%s", got, text)
	}
}

func TestFilesThatAreNoSettings(t *testing.T) {
	for file, want := range map[string]string{
		"- lease\n":                     "eider.yaml:1: the file must be lines of setting: value",
		"lease: 20s\n---\nlease: 30s\n": "eider.yaml:2: a second document",
		"lease: 20s\n\tcap: 3s\n":       "eider.yaml:2: not YAML",
		"? [a]\n: b\n":                  "eider.yaml:1: a setting's name must be a plain word",
		"lease: *x\n":                   "not YAML",
		"node: 5\n":                     `eider.yaml:1: node: must be a text (in quotes if need be), "5" is a int`,
	} {
		if _, err := load(t, file, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", file, err, want)
		}
	}
	for _, file := range []string{"\n", "# nothing\n", "---\n", "node: '5'\n"} {
		if _, err := load(t, file, nil); err != nil {
			t.Errorf("%q: %v", file, err)
		}
	}
	if _, err := load(t, "", map[string]string{"EIDER_CONFIG": "/nowhere/eider.yaml"}); err == nil || !strings.Contains(err.Error(), "config: ") {
		t.Errorf("a file that isn't there: %v", err)
	}
}

func TestOnlyLoopbackMayBeBound(t *testing.T) {
	for address, ok := range map[string]bool{
		"127.0.0.1:8762": true, "127.9.9.9:0": true, "[::1]:8762": true, "localhost:0": true,
		":8762": false, "0.0.0.0:8762": false, "[::]:8762": false, "10.0.0.7:8762": false, "example.com:80": false,
		"127.0.0.1": false, "127.0.0.1:http": false, "127.0.0.1:70000": false, "": false,
	} {
		if err := checkBind(address, defaultGRPC); (err == nil) != ok {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// TestHTTPHasOneMeaningForAskersAndServers: what the commands take as a registry's address, its server takes too, or
// says why it can't.
func TestHTTPHasOneMeaningForAskersAndServers(t *testing.T) {
	for _, text := range []string{"127.0.0.1:1234", "http://127.0.0.1:1234", "http://127.0.0.1:1234/"} {
		s, err := load(t, "", map[string]string{"EIDER_HTTP": text})
		if err != nil || s.HTTP != "127.0.0.1:1234" {
			t.Errorf("EIDER_HTTP=%s: %q, %v", text, s.HTTP, err)
		}
	}
	for text, want := range map[string]string{
		"https://127.0.0.1:1234": `EIDER_HTTP: "https://127.0.0.1:1234" has the scheme https, and it is an address to listen on: write ip:port, as in 127.0.0.1:8761; it names the registry to ask as well, so give the server its own by --http`,
		"127.0.0.1":              `EIDER_HTTP: "127.0.0.1" must be ip:port, as in 127.0.0.1:8761; it names`,
		"registry.example:8761":  `EIDER_HTTP: "registry.example:8761" must name an IP or localhost, as in 127.0.0.1:8761; it names`,
	} {
		env := map[string]string{"EIDER_HTTP": text}
		if _, err := load(t, "", env); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("EIDER_HTTP=%s: %v", text, err)
		}
		if s, err := load(t, "", env, "--http", "127.0.0.1:0"); err != nil || s.HTTP != "127.0.0.1:0" {
			t.Errorf("EIDER_HTTP=%s with --http: %q, %v", text, s.HTTP, err)
		}
	}
	if _, err := load(t, "", nil, "--grpc", "http://127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "as in 127.0.0.1:8762") {
		t.Errorf("a URL for gRPC: %v", err)
	}
}

func TestSettingsAreHeldToEachOther(t *testing.T) {
	for _, c := range []struct {
		file, env string
		args      []string
		want      string
	}{
		{"", "", []string{"--lease=5s"}, "--lease: 5s is less than three beats of 2s, so that one late beat would end an instance; give at least 6s, or lower --beat too"},
		{"", "3s", []string{"--beat=1500ms"}, "EIDER_LEASE: 3s is less than three beats of 1.5s, so that one late beat would end an instance; give at least 4.5s, or lower --beat too"},
		{"beat: 10s", "", nil, "--lease: 20s is less than three beats of 10s, so that one late beat would end an instance; give at least 30s, or lower "},
		{"beat: 10s", "", nil, "eider.yaml: beat too"},
		{"lease: 3s", "", nil, "eider.yaml: lease: 3s is less"},
	} {
		if _, err := load(t, c.file, map[string]string{"EIDER_LEASE": c.env}, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := load(t, "", nil, "--grpc=127.0.0.1:1234", "--http=127.0.0.1:1234"); err == nil || !strings.Contains(err.Error(), "choose another port") {
		t.Errorf("one port twice: %v", err)
	}
	if _, err := load(t, "", nil, "--grpc=127.0.0.1:0", "--http=127.0.0.1:0"); err != nil {
		t.Errorf("any port twice: %v", err)
	}
}

// A field without a row couldn't be set, and a row whose default it refuses couldn't be left alone.
func TestEveryFieldHasItsRowAndDefault(t *testing.T) {
	s := Defaults()
	exported := 0
	for f := range reflect.TypeFor[Settings]().Fields() {
		if f.IsExported() {
			exported++
		}
	}
	if rows := len(s.rows()); rows != exported {
		t.Errorf("%d fields, %d rows", exported, rows)
	}
	if err := (Settings{}).Check(); err != nil {
		t.Errorf("the zero value: %v", err)
	}
	if err := (Settings{GRPC: "0.0.0.0:1", MaxCallers: -1}).Check(); err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("two faults: %v", err)
	}
	var shown Settings
	fs := pflag.NewFlagSet("server", pflag.ContinueOnError)
	shown.Flags(fs)
	help := fs.FlagUsages()
	for _, r := range s.rows() {
		if !strings.Contains(help, "--"+r.name) || r.about == "" {
			t.Errorf("%s is not in the help", r.name)
		}
	}
	if !strings.Contains(help, "(default 20s)") {
		t.Errorf("defaults are not shown:\n%s", help)
	}
}

func TestLoggerWritesAsAsked(t *testing.T) {
	var out strings.Builder
	log := Settings{LogFormat: "json", LogLevel: "warn"}.Logger(&out)
	log.Info("quiet")
	log.Warn("loud", "n", 1)
	if got := out.String(); strings.Contains(got, "quiet") || !strings.Contains(got, `"msg":"loud","n":1`) {
		t.Errorf("json, warn: %s", got)
	}
	out.Reset()
	Settings{}.Logger(&out).Info("eider: ready")
	if got := out.String(); !strings.Contains(got, `msg="eider: ready"`) {
		t.Errorf("text: %s", got)
	}
}

func FuzzSettingsFile(f *testing.F) {
	for _, seed := range []string{"", "lease: 20s\n", "a: b\na: c\n", "- 1", "x: &a [*a]", "---\n---\n", "? {a: b}\n: c", "lease: !!binary aGk=", "\xff", "fresh: true\nfresh: true"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := Defaults()
		rows := make(map[string]row)
		for _, r := range s.rows() {
			rows[r.name] = r
		}
		faults := readFile("f.yaml", data, rows)
		for _, err := range faults {
			if !strings.HasPrefix(err.Error(), "f.yaml:") {
				t.Errorf("a fault without its place: %v", err)
			}
		}
		for _, err := range []error{checkAddress(s.GRPC, defaultGRPC), checkAddress(s.HTTP, defaultHTTP)} {
			if err != nil {
				t.Error(err)
			}
		}
	})
}

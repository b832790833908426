package deployed

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/eiderhq/eider/server/internal/launch"
	"github.com/eiderhq/eider/server/internal/node"
	"github.com/eiderhq/eider/window"
)

const (
	deploy = "../../../deploy/"
	docs   = "../../../docs/"
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// unit is a unit file: each key of its sections, with all of its values in order.
type unit map[string][]string

func readUnit(t *testing.T, name string) unit {
	t.Helper()
	u, section := unit{}, ""
	for i, line := range strings.Split(read(t, deploy+"systemd/"+name), "\n") {
		line = strings.TrimSpace(line)
		switch key, value, ok := strings.Cut(line, "="); {
		case line == "" || line[0] == '#' || line[0] == ';':
		case line[0] == '[':
			section = strings.Trim(line, "[]")
		case !ok || section == "":
			t.Errorf("%s:%d: %q is no setting", name, i+1, line)
		default:
			u[section+"."+key] = append(u[section+"."+key], value)
		}
	}
	return u
}

func (u unit) get(t *testing.T, key string) string {
	t.Helper()
	values := u[key]
	if len(values) == 0 {
		t.Errorf("%s isn't set", key)
		return ""
	}
	return values[len(values)-1]
}

func (u unit) time(t *testing.T, key string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(u.get(t, key))
	if err != nil {
		t.Errorf("%s: %v", key, err)
	}
	return d
}

// Both units: systemd is told how the service stands, tells the program itself and nobody else, and gives it nothing that
// it doesn't need.
func TestUnits(t *testing.T) {
	for _, name := range []string{"eider.service", "eider-run@.service"} {
		u := readUnit(t, name)
		for key, want := range map[string]string{
			"Service.Type": "notify", "Service.NotifyAccess": "main", "Service.NoNewPrivileges": "yes", "Service.ProtectSystem": "strict",
			"Service.StateDirectoryMode": "0700", "Service.UMask": "0077", "Service.CapabilityBoundingSet": "", "Install.WantedBy": "multi-user.target",
		} {
			if got := u.get(t, key); got != want {
				t.Errorf("%s: %s=%s, want %s", name, key, got, want)
			}
		}
		if slices.Contains(strings.Fields(strings.Join(u["Service.RestartPreventExitStatus"], " ")), "2") {
			t.Errorf("%s: a panic of Go ends with 2, and the service would stay down", name)
		}
		// systemd makes this folder root's, whatever User= says: below a mode that keeps others out nobody but root reads a file.
		if mode := u["Service.ConfigurationDirectoryMode"]; len(mode) > 0 && mode[0] != "0755" {
			t.Errorf("%s: ConfigurationDirectoryMode=%s shuts the service, and programs of other users, out of the folder of their certificates", name, mode[0])
		}
	}
}

// diskMargin is how long a slow disk may take to take what the registry keeps, at its end.
const diskMargin = 10 * time.Second

// grace is what the drain's own budget comes to with every default: see drain.Config.Grace.
func grace(t *testing.T) time.Duration {
	t.Helper()
	preset, err := window.Lookup("eider")
	if err != nil {
		t.Fatal(err)
	}
	forecast, err := preset.Derive(nil, window.Fleet{})
	if err != nil {
		t.Fatal(err)
	}
	const inFlight, margin = 20 * time.Second, 2 * time.Second
	return forecast.Planned.Terms.Worst() + inFlight + margin
}

// The times that systemd gives follow from those that the code takes.
func TestTimesOfUnits(t *testing.T) {
	registry := readUnit(t, "eider.service")
	if got, want := registry.time(t, "Service.TimeoutStopSec"), node.Grace+diskMargin; got != want {
		t.Errorf("eider.service: TimeoutStopSec=%s, want %s", got, want)
	}
	if got, least := registry.time(t, "Service.WatchdogSec"), 30*time.Second; got < least {
		t.Errorf("eider.service: WatchdogSec=%s: a registry that is slow for a moment would be restarted, and be slower then", got)
	}
	s := node.Defaults()
	if files, err := strconv.Atoi(registry.get(t, "Service.LimitNOFILE")); err != nil || files < s.MaxConnections+2*s.MaxHTTPConnections+1000 {
		t.Errorf("eider.service: LimitNOFILE=%d is less than its connections and files", files)
	}
	run := readUnit(t, "eider-run@.service")
	if got, want := run.time(t, "Service.TimeoutStopSec"), grace(t); got != want {
		t.Errorf("eider-run@.service: TimeoutStopSec=%s, want %s", got, want)
	}
	if want := "EIDER_GRACE=" + grace(t).String(); !slices.Contains(run["Service.Environment"], want) {
		t.Errorf("eider-run@.service: %v, want %s", run["Service.Environment"], want)
	}
	if got := run.get(t, "Service.KillMode"); got != "mixed" {
		t.Errorf("eider-run@.service: KillMode=%s: the program would get SIGTERM with eider-run, while it is still called", got)
	}
	start, err := launch.Run("eider-run").Flags().GetDuration("start")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := run.time(t, "Service.TimeoutStartSec"), start+10*time.Second; got != want {
		t.Errorf("eider-run@.service: TimeoutStartSec=%s, want %s: --start, and 10 s to register", got, want)
	}
}

// serverFlags are those of `eider server`.
func serverFlags() *pflag.FlagSet {
	flags := pflag.NewFlagSet("server", pflag.ContinueOnError)
	new(node.Settings).Flags(flags)
	return flags
}

// What the units start has the flags that they give it, and each variable of their files is one that somebody reads.
func TestUnitsNameFlagsAndVariablesThatExist(t *testing.T) {
	for name, want := range map[string]*pflag.FlagSet{"eider.service": serverFlags(), "eider-run@.service": launch.Run("eider-run").Flags()} {
		command := readUnit(t, name).get(t, "Service.ExecStart")
		for _, flag := range flagsOf(strings.Fields(command)) {
			if want.Lookup(flag) == nil {
				t.Errorf("%s: --%s is no flag of what it starts", name, flag)
			}
		}
	}
	page := read(t, docs+"cli.md") + read(t, docs+"sdk.md") + read(t, docs+"drain.md")
	env := map[string]string{}
	for _, name := range []string{"eider.env", "orders.env"} {
		for _, m := range regexp.MustCompile(`(?m)^([A-Z_]+)=(.*)$`).FindAllStringSubmatch(read(t, deploy+"systemd/"+name), -1) {
			env[m[1]] = m[2]
			if strings.HasPrefix(m[1], "EIDER_") && !strings.Contains(page, m[1]) {
				t.Errorf("%s: nobody reads %s", name, m[1])
			}
		}
	}
	var s node.Settings
	s.Flags(pflag.NewFlagSet("server", pflag.ContinueOnError))
	if err := s.Load(func(name string) string { return env[name] }); err != nil {
		t.Errorf("eider.env: %v", err)
	}
	flags := launch.Run("eider-run").Flags()
	run := os.Expand(readUnit(t, "eider-run@.service").get(t, "Service.ExecStart"), func(name string) string {
		if env[name] == "" {
			t.Errorf("orders.env doesn't set %s", name)
		}
		return env[name]
	})
	if err := flags.Parse(strings.Fields(run)[1:]); err != nil {
		t.Errorf("eider-run@.service: %s: %v", run, err)
	}
}

// flagsOf are the names of a command line's flags, until those of another program.
func flagsOf(args []string) (names []string) {
	for _, arg := range args {
		if arg == "--" {
			break
		}
		if name, ok := strings.CutPrefix(arg, "--"); ok {
			name, _, _ = strings.Cut(name, "=")
			names = append(names, name)
		}
	}
	return names
}

// systemd itself reads the units, and finds little that they leave open. Where it isn't installed the tests above have
// read them.
func TestUnitsAreVerified(t *testing.T) {
	systemd, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze here")
	}
	for name, open := range map[string]float64{"eider.service": 1.5, "eider-run@.service": 3.5} {
		folder := t.TempDir()
		file := filepath.Join(folder, name)
		text := regexp.MustCompile(`/usr/local/bin/eider\S*`).ReplaceAllString(read(t, deploy+"systemd/"+name), "/bin/true")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(systemd, "verify", file).CombinedOutput(); err != nil || strings.Contains(string(out), file) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		limit := fmt.Sprintf("--threshold=%.0f", open*10)
		if out, err := exec.Command(systemd, "security", "--offline=true", "--no-pager", limit, file).CombinedOutput(); err != nil {
			t.Errorf("%s is more exposed than %.1f: %v\n%s", name, open, err, out)
		}
	}
}

package deployed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/eiderhq/eider/server/internal/cli"
	"github.com/eiderhq/eider/server/internal/launch"
	"github.com/eiderhq/eider/server/internal/node"
)

// object is one of a manifest.
type object struct {
	file string
	tree map[string]any
}

func (o object) String() string {
	return fmt.Sprintf("%s: %v/%v", o.file, o.tree["kind"], o.at("metadata", "name"))
}

// at is what stands below an object's keys and indices; nil if nothing does.
func (o object) at(path ...any) any {
	var v any = o.tree
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[step]
		case int:
			l, _ := v.([]any)
			if step >= len(l) {
				return nil
			}
			v = l[step]
		}
	}
	return v
}

func manifests(t *testing.T) (all []object) {
	t.Helper()
	files, err := filepath.Glob(deploy + "kubernetes/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("%v: %v", files, err)
	}
	for _, file := range files {
		decoder := yaml.NewDecoder(strings.NewReader(read(t, file)))
		for {
			o := object{file: filepath.Base(file)}
			err := decoder.Decode(&o.tree)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			all = append(all, o)
		}
	}
	return all
}

// What this repository says of others' manifests it says of its own.
func TestOurLintPassesOurManifests(t *testing.T) {
	var out, errs bytes.Buffer
	code := cli.Process{Args: []string{"lint", deploy + "kubernetes"}, Getenv: func(string) string { return "" }, Out: &out, Err: &errs}.Run(context.Background())
	if code != 0 || !strings.Contains(out.String(), "nothing found") {
		t.Errorf("exit %d\n%s%s", code, out.String(), errs.String())
	}
}

// pod is the template of what runs pods; nil of other kinds.
func (o object) pod() map[string]any {
	spec, _ := o.at("spec", "template", "spec").(map[string]any)
	return spec
}

// Containers are given flags that exist, and the grace that the code reckons with; they run as nobody, on a root that
// nobody writes to.
func TestContainers(t *testing.T) {
	n := 0
	for _, o := range manifests(t) {
		spec := o.pod()
		if spec == nil {
			continue
		}
		n++
		c, _ := o.at("spec", "template", "spec", "containers", 0).(map[string]any)
		args := texts(c["args"])
		flags, want := (*pflag.FlagSet)(nil), grace(t)
		switch {
		case len(args) > 0 && args[0] == "server":
			flags, want = serverFlags(), node.Grace+diskMargin
			served(t, o, args)
		case slices.Equal(texts(c["command"]), []string{"/eider-run"}):
			flags = launch.Run("eider-run").Flags()
		}
		if flags != nil {
			if err := flags.Parse(args); err != nil {
				t.Errorf("%s: %v", o, err)
			}
		}
		if got := spec["terminationGracePeriodSeconds"]; got != int(want.Seconds()) {
			t.Errorf("%s: terminationGracePeriodSeconds %v, want %.0f", o, got, want.Seconds())
		}
		for _, e := range list(c["env"]) {
			if e, _ := e.(map[string]any); e["name"] == "EIDER_GRACE" && e["value"] != want.String() {
				t.Errorf("%s: EIDER_GRACE is %v, want %s", o, e["value"], want)
			}
		}
		confined(t, o)
	}
	if n < 3 {
		t.Errorf("only %d of them have pods", n)
	}
}

// confined holds a pod to what it needs.
func confined(t *testing.T, o object) {
	t.Helper()
	for _, one := range []struct {
		path []any
		want any
	}{
		{[]any{"securityContext", "runAsNonRoot"}, true}, {[]any{"securityContext", "seccompProfile", "type"}, "RuntimeDefault"},
		{[]any{"containers", 0, "securityContext", "allowPrivilegeEscalation"}, false},
		{[]any{"containers", 0, "securityContext", "readOnlyRootFilesystem"}, true},
		{[]any{"containers", 0, "securityContext", "capabilities", "drop", 0}, "ALL"},
	} {
		if got := o.at(append([]any{"spec", "template", "spec"}, one.path...)...); got != one.want {
			t.Errorf("%s: %v is %v, want %v", o, one.path, got, one.want)
		}
	}
	if requests := o.at("spec", "template", "spec", "containers", 0, "resources", "requests", "memory"); requests == nil {
		t.Errorf("%s: asks for no memory", o)
	}
	hook := o.at("spec", "template", "spec", "containers", 0, "lifecycle", "preStop", "exec")
	if token := o.at("spec", "template", "spec", "automountServiceAccountToken"); token != (hook != nil) {
		t.Errorf("%s: automountServiceAccountToken is %v, and its hook %v", o, token, hook)
	}
}

// served holds the registry's probes: restarted for what a restart mends, and not ready for what its callers gain by.
func served(t *testing.T, o object, args []string) {
	t.Helper()
	for probe, path := range map[string]string{"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"} {
		get := o.at("spec", "template", "spec", "containers", 0, probe, "httpGet")
		m, _ := get.(map[string]any)
		if m["path"] != path || m["scheme"] != "HTTPS" || m["port"] != "http" {
			t.Errorf("%s: %s asks %v, want %s of the port http, over HTTPS", o, probe, get, path)
		}
	}
	live, _ := o.at("spec", "template", "spec", "containers", 0, "livenessProbe").(map[string]any)
	period, _ := live["periodSeconds"].(int)
	failures, _ := live["failureThreshold"].(int)
	if got, want := time.Duration(period*failures)*time.Second, readUnit(t, "eider.service").time(t, "Service.WatchdogSec"); got != want {
		t.Errorf("%s: is restarted after %s, as a systemd service after %s", o, got, want)
	}
	if o.at("spec", "replicas") != 1 {
		t.Errorf("%s: has %v replicas; nodes don't share what they know", o, o.at("spec", "replicas"))
	}
	for _, flag := range []string{"--cert=", "--key=", "--tokens=", "--data="} {
		if !slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, flag) }) {
			t.Errorf("%s: lacks %s", o, flag)
		}
	}
	var settings node.Settings
	flags := pflag.NewFlagSet("server", pflag.ContinueOnError)
	settings.Flags(flags)
	if err := errors.Join(flags.Parse(args), settings.Load(func(string) string { return "" })); err != nil {
		t.Errorf("%s: %v", o, err)
	}
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func texts(v any) (out []string) {
	for _, one := range list(v) {
		out = append(out, fmt.Sprint(one))
	}
	return out
}

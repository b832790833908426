package deployed

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/eiderhq/eider/server/internal/launch"
)

// Hooks are given flags that exist and the grace of their pod, and who may ask for slices may do what the code prints.
func TestHooks(t *testing.T) {
	var role struct{ Rules []any }
	if err := yaml.Unmarshal([]byte(read(t, "../kube/role.yaml")), &role); err != nil || len(role.Rules) != 1 {
		t.Fatalf("%v: %v", role, err)
	}
	hooks, roles := 0, 0
	for _, o := range manifests(t) {
		if o.tree["kind"] == "Role" {
			roles++
			if !reflect.DeepEqual(o.at("rules"), any(role.Rules)) {
				t.Errorf("%s: allows %v, want %v", o, o.at("rules"), role.Rules)
			}
		}
		command := texts(o.at("spec", "template", "spec", "containers", 0, "lifecycle", "preStop", "exec", "command"))
		if len(command) == 0 {
			continue
		}
		hooks++
		if !slices.Equal(command[:2], []string{"/eider-run", "leave"}) {
			t.Errorf("%s: its hook runs %v", o, command)
			continue
		}
		flags := launch.Leave("eider-run leave", nil).Flags()
		if err := flags.Parse(command[2:]); err != nil {
			t.Errorf("%s: %v", o, err)
		}
		grace, _ := flags.GetDuration("grace")
		if got := o.at("spec", "template", "spec", "terminationGracePeriodSeconds"); got != int(grace/time.Second) {
			t.Errorf("%s: terminationGracePeriodSeconds %v, and its hook is told %s", o, got, grace)
		}
	}
	if hooks == 0 || roles == 0 {
		t.Errorf("%d hooks and %d roles", hooks, roles)
	}
}

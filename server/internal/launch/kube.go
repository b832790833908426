package launch

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/harmless"
	"github.com/eiderhq/eider/server/internal/kube"
)

// kubeLeave is one `leave --kube`, as its flags say.
type kubeLeave struct {
	on bool
	kube.Config
	own *pflag.FlagSet // those flags that --kube alone has
}

// flags adds those of --kube.
func (k *kubeLeave) flags(flags *pflag.FlagSet) {
	flags.BoolVar(&k.on, "kube", false, "without a registry: wait until Kubernetes has this pod out of its Services, and for what nodes and load balancers may take from there on")
	k.own = pflag.NewFlagSet("kube", pflag.ContinueOnError)
	k.own.StringArrayVar(&k.Services, "service", nil, "`NAME` of a Service that sends to the pod; may be given again (default all whose slices name the pod)")
	k.own.StringArrayVar(&k.Balancers, "lb", nil, "`NAMES` of load balancers that send to it, by commas: alb, nlb, gce, agic, nginx, istio, aws-local, gce-local, or NAME=30s")
	k.own.StringToStringVar(&k.Set, "set", nil, "`NAME=VALUE` of a setting of the cluster that isn't its default, as of eider window --preset kubernetes; may be given again")
	k.own.DurationVar(&k.Grace, "grace", 0, "`TIME` from the pod's deletion to SIGKILL, its terminationGracePeriodSeconds (default $EIDER_GRACE, else 30s)")
	k.own.DurationVar(&k.InFlight, "in-flight", 0, "`TIME` of it that the program needs after the hook, on SIGTERM (default 20s, or five sevenths of what the grace leaves)")
	k.own.StringVar(&k.Pod, "pod", "", "`NAME` of the pod (default $POD_NAME, else the host's name)")
	k.own.StringVar(&k.Address, "pod-ip", "", "`ADDRESS` of the pod (default $POD_IP, else this end of the connection to the API)")
	k.own.StringVar(&k.API, "kube-api", "", "`URL` of the API (default by $KUBERNETES_SERVICE_HOST and $KUBERNETES_SERVICE_PORT)")
	k.own.StringVar(&k.Namespace, "kube-namespace", "", "`NAME` of the pod's namespace (default $POD_NAMESPACE, else the service account's)")
	k.own.StringVar(&k.TokenFile, "kube-token", "", "`FILE` with the token (default the service account's)")
	k.own.StringVar(&k.CAFile, "kube-ca", "", "`FILE` with the certificates that the API's is signed with (default the service account's)")
	flags.AddFlagSet(k.own)
}

// stray says which flags were given that the other way to leave has.
func stray(kube bool, socket, own *pflag.FlagSet) error {
	others, what := own, "is for --kube, which isn't given"
	if kube {
		others, what = socket, "has no meaning beside --kube"
	}
	var given []string
	others.VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			given = append(given, "--"+f.Name)
		}
	})
	if len(given) == 0 {
		return nil
	}
	return &eider.Error{Kind: eider.Invalid, Err: fmt.Errorf("%s: what it says %s", strings.Join(given, ", "), what)}
}

// kubeCodes are the exit codes of outcomes; those of `eider` itself mean the same.
var kubeCodes = map[kube.Outcome]int{kube.Seen: 0, kube.Cut: exitUnwell, kube.Misset: exitUsage, kube.Away: exitNobody, kube.Unnamed: 4, kube.Denied: exitDenied}

// run keeps the pause.
func (k *kubeLeave) run(cmd *cobra.Command, asJSON bool) error {
	errOut, name := cmd.ErrOrStderr(), cmd.Root().Name()
	say := func(text string) {
		for line := range strings.Lines(text) {
			fmt.Fprintf(errOut, "%s: %s\n", name, harmless.Text(strings.TrimRight(line, "\n")))
		}
	}
	k.Progress = say
	report, err := k.Leave(cmd.Context())
	if err != nil && report.Pause == 0 {
		return &eider.Error{Kind: eider.Invalid, Err: err}
	}
	line := report.Line
	if asJSON {
		text, err := json.Marshal(report)
		if err != nil {
			return err
		}
		line = string(text)
	}
	if _, err := io.WriteString(cmd.OutOrStdout(), harmless.Text(line)+"\n"); err != nil {
		say(report.Line) // to whoever hears it
	}
	if code := kubeCodes[report.Outcome]; code != 0 {
		return &Ended{code}
	}
	return nil
}

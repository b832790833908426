package launch

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eiderhq/eider/server/internal/kube"
	"github.com/eiderhq/eider/server/internal/kube/kubetest"
)

// cluster is an API on a socket of this machine, and the flags by which a hook finds it.
func cluster(t *testing.T) (*kubetest.Server, []string) {
	t.Helper()
	api, err := kubetest.New("shop", "127.0.0.1", "secret")
	if err != nil {
		t.Fatal(err)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = api.Serve(lis) // until Close
	}()
	t.Cleanup(func() { api.Close(); <-ended })
	dir := t.TempDir()
	token, ca := filepath.Join(dir, "token"), filepath.Join(dir, "ca.crt")
	if os.WriteFile(token, []byte("secret"), 0o600) != nil || os.WriteFile(ca, api.CA(), 0o600) != nil {
		t.Fatal("no files")
	}
	at := url.URL{Scheme: "https", Host: lis.Addr().String()}
	return api, []string{"leave", "--kube", "--kube-api", at.String(), "--kube-token", token, "--kube-ca", ca, "--kube-namespace", "shop", "--pod", "orders-1", "--service", "orders"}
}

func hook(t *testing.T, args []string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	code = small(t.Context(), "test", args, &o, &e)
	return code, o.String(), e.String()
}

func pod(name string, ready bool) kubetest.Endpoint {
	return kubetest.Endpoint{Pod: name, Address: "10.0.0.9", Ready: &ready, Serving: new(true), Terminating: new(!ready)}
}

// The whole of it by the small binary's own words, over sockets: what it says, and when it ends.
func TestLeaveKube(t *testing.T) {
	api, args := cluster(t)
	api.Put(kubetest.Slice{Name: "orders-a", Service: "orders", Endpoints: []kubetest.Endpoint{pod("orders-1", true), pod("orders-2", true)}})
	out := make(chan struct{})
	time.AfterFunc(100*time.Millisecond, func() {
		close(out)
		api.Put(kubetest.Slice{Name: "orders-a", Service: "orders", Endpoints: []kubetest.Endpoint{pod("orders-1", false), pod("orders-2", true)}})
	})
	begun := time.Now()
	code, said, progress := hook(t, append(args, "--grace", "10m", "--set", "proxy-min-sync=0s", "--set", "slice-batch=5m"))
	<-out
	if took := time.Since(begun); code != 0 || took < 2*time.Second {
		t.Errorf("code %d after %s", code, took)
	}
	if !strings.HasPrefix(said, "served on for ") || !strings.Contains(said, "orders-1 was not ready in 1 slice of orders after ") || strings.Count(said, "\n") != 1 {
		t.Errorf("out: %q", said)
	}
	for line := range strings.Lines(progress) {
		if !strings.HasPrefix(line, "eider-run: ") {
			t.Errorf("err: %q", line)
		}
	}
	if !strings.Contains(progress, "orders-1 is not ready in 1 slice of orders any more; it serves on for 2s = margin 2s") {
		t.Errorf("err: %s", progress)
	}
}

// Each outcome has its exit code; what helps is said with it.
func TestLeaveKubeCodes(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1") // a pod's
	short := []string{"--grace", "2010ms", "--in-flight", "1ms"}
	long := []string{"--grace", "10m", "--set", "slice-batch=5s"} // so that a busy machine has time to be answered
	for name, c := range map[string]struct {
		with  func(*kubetest.Server)
		args  []string
		code  int
		words string
	}{
		"cut":       {func(*kubetest.Server) {}, short, 1, "the grace left no more: 9ms"},
		"misset":    {func(*kubetest.Server) {}, append([]string{"--lb", "abl"}, short...), 2, "did you mean alb?"},
		"forbidden": {func(api *kubetest.Server) { api.Deny(true) }, long, 6, "verbs: [list, watch]"},
		"unnamed":   {func(api *kubetest.Server) { api.Delete("orders-a") }, long, 4, "has no slices"},
		"away":      {func(api *kubetest.Server) { api.Close() }, long, 3, "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api, args := cluster(t)
			api.Put(kubetest.Slice{Name: "orders-a", Service: "orders", Endpoints: []kubetest.Endpoint{pod("orders-1", true)}})
			c.with(api)
			code, out, errOut := hook(t, append(args, c.args...))
			if code != c.code || !strings.Contains(out+errOut, c.words) {
				t.Errorf("code %d, want %d\n%s%s", code, c.code, out, errOut)
			}
		})
	}
	if len(kubeCodes) != int(kube.Denied)+1 {
		t.Error("an outcome has no code")
	}
}

// Programs read the same as JSON.
func TestLeaveKubeJSON(t *testing.T) {
	_, args := cluster(t)
	code, out, _ := hook(t, append(args, "--grace", "2010ms", "--in-flight", "1ms", "-o", "json"))
	var report struct {
		Outcome, Pod, Said string
		Pause              int64 `json:"pause_ns"`
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != 1 || report.Outcome != "cut" || report.Pod != "orders-1" || report.Pause < 9e6 || report.Said == "" {
		t.Errorf("code %d, %v: %s", code, err, out)
	}
}

// A signal ends the hook at once, and it says what that means.
func TestLeaveKubeSignalled(t *testing.T) {
	api, args := cluster(t)
	api.Put(kubetest.Slice{Name: "orders-a", Service: "orders", Endpoints: []kubetest.Endpoint{pod("orders-1", false), pod("orders-2", true)}})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var out, errOut bytes.Buffer
	if code := small(ctx, "test", append(args, "--lb", "x=1h", "--grace", "3h"), &out, &errOut); code != 1 || !strings.Contains(out.String(), "a signal ended the pause") {
		t.Errorf("code %d\n%s%s", code, out.String(), errOut.String())
	}
}

// What can't be meant is refused, and nothing is waited for.
func TestLeaveIsRefused(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for want, args := range map[string][]string{
		"--lb, --service: what it says is for --kube": {"leave", "--service", "orders", "--lb", "alb"},
		"--wait: what it says has no meaning beside":  {"leave", "--kube", "--wait"},
		"this isn't a pod":                            {"leave", "--kube"},
		"unknown flag: --cube":                        {"leave", "--cube"},
	} {
		if code, _, errOut := hook(t, args); code != exitUsage || !strings.Contains(errOut, want) || !strings.Contains(errOut, "`eider-run leave --help`") {
			t.Errorf("%v: code %d\n%s", args, code, errOut)
		}
	}
}

package cli

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/registry"
)

// must runs a command that succeeds and returns what it printed.
func must(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errs := runReal(args...)
	if code != exitOK {
		t.Fatalf("eider %s: exit %d, %s", strings.Join(args, " "), code, errs)
	}
	return out
}

// TestSetupInFiveCommands runs those of docs/security.md as they stand there, but for ports and the host's name.
func TestSetupInFiveCommands(t *testing.T) {
	page, err := os.ReadFile(docs + "security.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)## Setup in five commands\n\n```sh\n(.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatal("docs/security.md has no setup")
	}
	t.Chdir(t.TempDir())
	var at listening
	lines := strings.Split(strings.TrimSpace(string(block[1])), "\n")
	if len(lines) != 5 {
		t.Fatalf("%d commands", len(lines))
	}
	for _, line := range lines {
		line = strings.NewReplacer("0.0.0.0:8762", "0.0.0.0:0", "0.0.0.0:8761", "0.0.0.0:0").Replace(line)
		args := strings.Fields(line)[1:]
		if args[0] == "server" {
			_, at, _ = startServer(t, args[1:]...)
			continue
		}
		if at.Ready {
			_, port, _ := net.SplitHostPort(at.HTTP)
			line = strings.Replace(line, "registry.example:8761", "localhost:"+port, 1)
			args = strings.Fields(line)[1:]
		}
		out := must(t, args...)
		if args[0] == "services" && !strings.Contains(out, "No service is registered") {
			t.Errorf("%s: %s", line, out)
		}
	}
	_, port, _ := net.SplitHostPort(at.GRPC)
	t.Setenv("EIDER_ADDR", "localhost:"+port)
	t.Setenv("EIDER_CA", "certs/ca.pem")
	t.Setenv("EIDER_TOKEN_FILE", "orders.token")
	reg := registry.Open(registry.Config{Logger: slog.New(slog.DiscardHandler)})
	defer reg.Close()
	l, err := reg.Register(registry.Registration{Service: "orders", Address: "127.0.0.1:9"})
	if err != nil {
		t.Fatal(err)
	}
	for s := range l.Watch(t.Context()) {
		if s.Listed {
			return
		}
	}
	t.Error("the program isn't listed")
}

func TestTokens(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "tokens")
	must(t, "tokens", "add", "orders", "--tokens", file, "--role", "register:orders", "--role", "read", "--out", filepath.Join(folder, "orders"))
	var shown added
	if err := json.Unmarshal([]byte(must(t, "tokens", "add", "ci", "--tokens", file, "--role", "operate", "--expires-in", "1h", "--json")), &shown); err != nil || !strings.HasPrefix(shown.Token, "eider_") {
		t.Fatalf("%+v, %v", shown, err)
	}
	must(t, "tokens", "add", "web.prod", "--tokens", file, "--role", "register:web", "--cert")
	for args, want := range map[string]int{
		"add orders --role read":          exitUsage,
		"add x":                           exitUsage,
		"add x --role fly":                exitUsage,
		"add a=b --role read":             exitUsage,
		"add --role read":                 exitUsage,
		"add nobody --rotate":             exitUsage,
		"add y --role read --out " + file: exitFailure,
		"revoke nobody":                   exitNotFound,
		"revoke ci --cert":                exitNotFound,
		"list more":                       exitUsage,
		"sort":                            exitUsage,
	} {
		words := append([]string{"tokens"}, strings.Fields(args)...)
		if words[1] != "sort" {
			words = append(words, "--tokens", file)
		}
		if code, out, errs := runReal(words...); code != want {
			t.Errorf("tokens %s: exit %d, want %d: %s%s", args, code, want, out, errs)
		}
	}
	if code, _, errs := runReal("tokens", "list"); code != exitUsage || !strings.Contains(errs, "--tokens") {
		t.Errorf("no file: exit %d, %s", code, errs)
	}
	must(t, "tokens", "add", "orders", "--tokens", file, "--rotate")
	list := must(t, "tokens", "list", "--tokens", file)
	if strings.Count(list, "register:orders") != 2 || strings.Count(list, "\n") != 5 || strings.Contains(list, shown.Token) {
		t.Errorf("list:\n%s", list)
	}
	data, err := os.ReadFile(file)
	if err != nil || bytes.Contains(data, []byte("eider_")) {
		t.Errorf("the file holds a token (%v):\n%s", err, data)
	}
	for _, name := range []string{file, filepath.Join(folder, "orders")} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	must(t, "tokens", "revoke", "orders", "--old", "--tokens", file)
	if list = must(t, "tokens", "list", "--tokens", file); strings.Count(list, "register:orders") != 1 {
		t.Errorf("after revoking the old one:\n%s", list)
	}
	must(t, "tokens", "revoke", "orders", "--tokens", file)
	must(t, "tokens", "revoke", "web.prod", "--cert", "--tokens", file)
	if list = must(t, "tokens", "list", "--tokens", file); strings.Count(list, "\n") != 2 {
		t.Errorf("at the end:\n%s", list)
	}
}

// The command shows no token where others could read it, and says what is wrong with what it can't trust.
func TestWhatACommandShows(t *testing.T) {
	folder := t.TempDir()
	certs := filepath.Join(folder, "certs")
	if out := must(t, "certs", "init", certs); !strings.Contains(out, "--cert "+certs+"/server.pem") {
		t.Errorf("certs init: %s", out)
	}
	if code, _, errs := runReal("certs", "init", certs); code != exitFailure || !strings.Contains(errs, "nothing is overwritten") {
		t.Errorf("again: exit %d, %s", code, errs)
	}
	tokens, mine := filepath.Join(folder, "tokens"), filepath.Join(folder, "mine")
	must(t, "tokens", "add", "me", "--tokens", tokens, "--role", "read", "--out", mine)
	server, at, errs := startServer(t, "--cert", certs+"/server.pem", "--key", certs+"/server.key", "--tokens", tokens)
	_, port, _ := net.SplitHostPort(at.HTTP)
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"--http localhost:" + port + " --tls-ca " + certs + "/ca.pem --token-file " + mine, exitOK, ""},
		{"--http https://localhost:" + port + " --tls-ca " + certs + "/ca.pem", exitDenied, "EIDER_TOKEN_FILE"},
		{"--http https://localhost:" + port + " --token-file " + mine, exitUnreachable, "--tls-ca"},
		{"--http http://localhost:" + port + " --token-file " + mine, exitUnreachable, "write https://"},
		{"--http http://registry.example:" + port + " --token-file " + mine, exitUsage, "isn't sent in clear text"},
		{"--http http://10.0.0.7:" + port + " --token-file " + mine, exitUsage, "isn't sent in clear text"},
		{"--http localhost:" + port + " --tls-ca " + tokens, exitUsage, "holds no certificate"},
		{"--http localhost:" + port + " --token-file " + folder + "/none", exitUsage, "none"},
		{"--http localhost:" + port + " --token-file " + tokens, exitUsage, "one token alone"},
	} {
		code, _, e := runReal(append([]string{"services"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(e, c.want) {
			t.Errorf("%s: exit %d, want %d and %q: %s", c.args, code, c.code, c.want, e)
		}
	}
	_ = server.Process.Signal(syscall.SIGTERM)
	_ = server.Wait()
	if !strings.Contains(errs.text.String(), "where 1 tokens and certificates are let in") {
		t.Error("the log doesn't say who is let in")
	}
}

// TestAttackReadsSecretsInWhatIsWritten: neither tokens, nor the secrets of incarnations, nor metadata values stand in
// any log, error, event or metric of a registry that is used well and badly, at the most talkative level.
func TestAttackReadsSecretsInWhatIsWritten(t *testing.T) {
	const metadataValue = "metadata-value-of-orders"
	folder := t.TempDir()
	certs, tokens := filepath.Join(folder, "certs"), filepath.Join(folder, "tokens")
	must(t, "certs", "init", certs)
	shown := map[string]string{}
	for name, role := range map[string]string{"orders": "register:orders", "ops": "operate"} {
		must(t, "tokens", "add", name, "--tokens", tokens, "--role", role, "--out", filepath.Join(folder, name))
		data, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		shown[name] = strings.TrimSpace(string(data))
	}
	shown["wrong"] = "eider_a-token-that-nobody-has-given-out"
	server, at, errs := startServer(t, "--cert", certs+"/server.pem", "--key", certs+"/server.key", "--client-ca", certs+"/ca.pem",
		"--tokens", tokens, "--log-level", "debug", "--data", filepath.Join(folder, "data"))
	log := &printed{}
	secret := raw(t, at.GRPC, certs+"/ca.pem", shown, metadataValue, log)
	for name, token := range shown {
		reg := registry.Open(registry.Config{Addr: at.GRPC, TLS: trusting(t, certs+"/ca.pem"), Token: func() (string, error) { return token, nil },
			Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		l, err := reg.Register(registry.Registration{Service: "orders", ID: name, Address: "127.0.0.1:9", Metadata: map[string]string{"k": metadataValue}})
		if err != nil {
			t.Fatal(err)
		}
		for s := range l.Watch(t.Context()) {
			fmt.Fprintln(log, s)
			if s.Listed || strings.Contains(s.String(), "token") {
				break
			}
		}
		reg.Close()
		for _, path := range []string{"/v1/events", "/metrics", "/v1/callers", "/v1/drains", "/", "/readyz", "/v1/services/orders?x=" + name} {
			fmt.Fprintln(log, path, fetchAs(t, at.HTTP, path, token, certs+"/ca.pem"))
		}
	}
	_ = server.Process.Signal(syscall.SIGTERM)
	_ = server.Wait()
	all := errs.text.String() + log.text.String()
	if !strings.Contains(all, "registered") || !strings.Contains(all, `"kind":"denied"`) || !strings.Contains(all, "eider_instances") {
		t.Fatalf("little was written:\n%s", all)
	}
	secrets := map[string]string{"a metadata value": metadataValue, "a secret in hex": hex.EncodeToString(secret),
		"a secret in base64": base64.StdEncoding.EncodeToString(secret), "a secret in bytes": string(secret), "a secret as Go writes it": strings.Trim(fmt.Sprint(secret), "[]")}
	for name, token := range shown {
		secrets["the token of "+name] = token
	}
	for what, text := range secrets {
		if i := strings.Index(all, text); i >= 0 {
			t.Errorf("%s was written: …%s…", what, all[max(0, i-200):min(len(all), i+200)])
		}
	}
}

func trusting(t *testing.T, ca string) *tls.Config {
	t.Helper()
	pem, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return &tls.Config{RootCAs: pool}
}

// raw registers an instance by hand, and returns the secret that it was given. It also says what the node must refuse.
func raw(t *testing.T, addr, ca string, shown map[string]string, value string, log io.Writer) []byte {
	t.Helper()
	cc, err := grpc.NewClient(addr, grpc.WithTransportCredentials(credentials.NewTLS(trusting(t, ca))))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	s, err := pb.NewRegistryClient(cc).Attach(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+shown["orders"]))
	if err != nil {
		t.Fatal(err)
	}
	say := func(service string, nonce uint64, secret []byte) {
		err := s.Send(&pb.AttachRequest{Kind: &pb.AttachRequest_Register{Register: &pb.Register{Secret: secret, Record: &pb.Record{Service: service, Id: "raw",
			Incarnation: &pb.Incarnation{Nonce: nonce}, Attachment: 1, Status: pb.Status_STATUS_UP, Address: "127.0.0.1:9", Metadata: map[string]string{"k": value}}}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Send(&pb.AttachRequest{Kind: &pb.AttachRequest_Hello{Hello: &pb.Hello{Caller: "raw@1"}}}); err != nil {
		t.Fatal(err)
	}
	say("orders", 7, nil)
	say("orders", 7, []byte("sixteen bytes!!!"))
	say("orders", 8, []byte("too short"))
	say("billing", 9, nil)
	var secret []byte
	for range 5 {
		m, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if r := m.GetRegistered(); r != nil {
			secret = r.GetSecret()
			continue
		}
		fmt.Fprintln(log, m)
	}
	if len(secret) != 16 {
		t.Fatalf("a secret of %d bytes", len(secret))
	}
	return secret
}

func fetchAs(t *testing.T, at, path, token, ca string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: trusting(t, ca), DisableKeepAlives: true}, Timeout: 10 * time.Second}
	req, err := http.NewRequest(http.MethodGet, "https://"+at+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

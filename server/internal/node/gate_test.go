package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/registry"
	"github.com/eiderhq/eider/server/internal/access"
)

// fort is a node with TLS and tokens, and what its clients need.
type fort struct {
	running
	minted access.Minted
	tokens string            // the file
	shown  map[string]string // a token's file by its name
}

// fortress starts a node that lets in read, ops (operate), orders and billing (register), each by a token of its own.
func fortress(t *testing.T, s Settings) *fort {
	t.Helper()
	folder := t.TempDir()
	m, err := access.Mint(filepath.Join(folder, "certs"), []string{"localhost", "127.0.0.1"}, "web", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	f := &fort{minted: m, tokens: filepath.Join(folder, "tokens"), shown: map[string]string{}}
	var book []byte
	for name, roles := range map[string]access.Roles{"read": {Read: true}, "ops": {Operate: true},
		"orders": {Register: []string{"orders"}}, "billing": {Register: []string{"billing"}}} {
		token := access.NewToken()
		f.shown[name] = filepath.Join(folder, name)
		if err := access.WriteNew(f.shown[name], []byte(token)); err != nil {
			t.Fatal(err)
		}
		book = access.AppendLine(book, access.Identity{Name: name, Kind: access.Token, Roles: roles}, token, time.Now())
	}
	book = access.AppendLine(book, access.Identity{Name: "web", Kind: access.Certificate, Roles: access.Roles{Register: []string{"web"}}}, "", time.Now())
	if err := access.WriteNew(f.tokens, book); err != nil {
		t.Fatal(err)
	}
	s.Cert, s.Key, s.ClientCA, s.Tokens, s.Fresh = m.Server, m.ServerKey, m.CA, f.tokens, true
	f.running = start(t, s)
	return f
}

func (f *fort) tls(t *testing.T) *tls.Config {
	t.Helper()
	pem, err := os.ReadFile(f.minted.CA)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return &tls.Config{RootCAs: pool}
}

// open returns a client's handle that shows a token; "" shows none.
func (f *fort) open(t *testing.T, token string, change ...func(*registry.Config)) *registry.Registry {
	t.Helper()
	cfg := registry.Config{Addr: f.Addrs().GRPC.String(), TLS: f.tls(t), TokenFile: f.shown[token], Logger: slog.New(slog.DiscardHandler)}
	for _, c := range change {
		c(&cfg)
	}
	r := registry.Open(cfg)
	t.Cleanup(func() { r.Close() })
	return r
}

// await returns the first state that is as asked.
func await(t *testing.T, l *registry.Listing, what string, want func(registry.State) bool) registry.State {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var last registry.State
	for last = range l.Watch(ctx) {
		if want(last) {
			return last
		}
	}
	t.Fatalf("not %s: %s", what, last)
	return last
}

func listed(s registry.State) bool { return s.Listed }

func because(words string) func(registry.State) bool {
	return func(s registry.State) bool {
		return !s.Listed && s.Err != nil && strings.Contains(s.Err.Error(), words)
	}
}

func register(t *testing.T, r *registry.Registry, service string) *registry.Listing {
	t.Helper()
	l, err := r.Register(registry.Registration{Service: service, Address: "127.0.0.1:9"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// ask sends one GET over TLS; headers come in pairs.
func (f *fort) ask(t *testing.T, method, path, token string, headers ...string) (int, string) {
	t.Helper()
	return f.askAt(t, f.Addrs().HTTP.String(), method, path, token, headers...)
}

func (f *fort) askAt(t *testing.T, at, method, path, token string, headers ...string) (int, string) {
	t.Helper()
	hc := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: f.tls(t)}, Timeout: 10 * time.Second}
	var body io.Reader
	if method == http.MethodPost {
		body = strings.NewReader(`{"service": "orders", "id": "1"}`)
	}
	req, err := http.NewRequest(method, "https://"+at+path, body)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		secret, err := access.ReadToken(f.shown[token])
		if err != nil {
			secret = token
		}
		req.Header.Set("Authorization", "Bearer "+secret)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		} else {
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	res, err := hc.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// A stranger registers nothing: not without a token, not with a wrong one, not for a service that isn't his; whoever
// may does, by token or by certificate.
func TestAttackStrangerRegisters(t *testing.T) {
	f := fortress(t, Settings{})
	await(t, register(t, f.open(t, "orders"), "orders"), "listed by a token", listed)
	pair, err := tls.LoadX509KeyPair(f.minted.Client, f.minted.ClientKey)
	if err != nil {
		t.Fatal(err)
	}
	byCert := f.open(t, "", func(c *registry.Config) { c.TLS.Certificates = []tls.Certificate{pair} })
	await(t, register(t, byCert, "web"), "listed by a certificate", listed)

	for _, attack := range []struct {
		what, token, service, want string
		change                     func(*registry.Config)
	}{
		{"without a token", "", "orders", "without a token or a client certificate", func(*registry.Config) {}},
		{"with a wrong one", "", "orders", "isn't known here", func(c *registry.Config) { c.Token = func() (string, error) { return access.NewToken(), nil } }},
		{"for a service that isn't his", "billing", "orders", "hasn't the role register:orders", func(*registry.Config) {}},
		{"with the role read", "read", "orders", "hasn't the role register:SERVICE", func(*registry.Config) {}},
		{"in clear text", "orders", "orders", "", func(c *registry.Config) { c.TLS = nil }},
	} {
		s := await(t, register(t, f.open(t, attack.token, attack.change), attack.service), "refused "+attack.what, because(attack.want))
		if attack.want != "" && eider.KindOf(s.Err) != eider.Denied {
			t.Errorf("%s: %v is no denial", attack.what, s.Err)
		}
	}
	if v, ok := f.replica.View("orders"); !ok || len(v.Instances) != 1 {
		t.Errorf("orders: %v", v)
	}
	if !strings.Contains(f.log.String(), "token billing hasn't the role register:orders") {
		t.Errorf("the log tells nothing of it:\n%s", f.log)
	}
}

// A token that was revoked is let in no longer, and its streams end; one that takes its place is shown without a restart.
func TestRevokedTokensAreOut(t *testing.T) {
	f := fortress(t, Settings{})
	r := f.open(t, "orders")
	l := register(t, r, "orders")
	await(t, l, "listed", listed)
	data, err := os.ReadFile(f.tokens)
	if err != nil {
		t.Fatal(err)
	}
	left, _ := access.Remove(data, access.Token, "orders", false)
	if err := access.Replace(f.tokens, left); err != nil {
		t.Fatal(err)
	}
	await(t, l, "out", because("isn't known here"))
	token := access.NewToken()
	if err := access.Replace(f.shown["orders"], []byte(token)); err != nil {
		t.Fatal(err)
	}
	left = access.AppendLine(left, access.Identity{Name: "orders", Kind: access.Token, Roles: access.Roles{Register: []string{"orders"}}}, token, time.Now())
	if err := access.Replace(f.tokens, left); err != nil {
		t.Fatal(err)
	}
	await(t, l, "listed by the new token", listed)
}

// Reading needs the role, but for the probes; changing anything would need another.
func TestAttackStrangerReads(t *testing.T) {
	f := fortress(t, Settings{Metrics: "127.0.0.1:0"})
	for path, open := range map[string]bool{"/": false, "/v1/services": false, "/v1/events": false, "/v1/callers": false, "/v1/drains": false, "/v1/sd": false, "/healthz": true, "/readyz": true} {
		for token, want := range map[string]int{"": 401, "wrong": 401, "orders": 403, "read": 200, "ops": 200} {
			if open {
				want = 200
			}
			if got, body := f.ask(t, "GET", path, token); got != want {
				t.Errorf("%s with token %q: %d, want %d: %s", path, token, got, want, body)
			}
		}
	}
	if got, _ := f.ask(t, "GET", "/metrics", "read"); got != 404 {
		t.Errorf("/metrics beside an address of their own: %d", got)
	}
	for token, want := range map[string]int{"": 401, "orders": 403, "read": 200} {
		if got, body := f.askAt(t, f.Addrs().Metrics.String(), "GET", "/metrics", token); got != want || want == 200 && !strings.Contains(body, "eider_tls_handshakes_total") {
			t.Errorf("metrics with token %q: %d, want %d", token, got, want)
		}
	}
	if got, _ := f.askAt(t, f.Addrs().Metrics.String(), "GET", "/v1/services", "read"); got != 404 {
		t.Errorf("/v1/services at the metrics' address: %d", got)
	}
	if got, body := f.ask(t, "GET", "/v1/events", "read"); got != 200 || !strings.Contains(body, `"kind":"denied"`) {
		t.Errorf("no event tells of the refusals: %d %s", got, body)
	}
}

// Nobody holds or releases but who may operate; what he did is told, with who and from where.
func TestAttackStrangerHolds(t *testing.T) {
	f := fortress(t, Settings{})
	l, err := f.open(t, "orders").Register(registry.Registration{Service: "orders", ID: "1", Address: "127.0.0.1:9"})
	if err != nil {
		t.Fatal(err)
	}
	await(t, l, "listed", listed)
	as := []string{"Content-Type", "application/json"}
	for token, want := range map[string]int{"": 401, "wrong": 401, "read": 403, "orders": 403} {
		for method, path := range map[string]string{"POST": "/v1/holds", "DELETE": "/v1/holds/orders/1"} {
			if got, body := f.ask(t, method, path, token, as...); got != want {
				t.Errorf("%s with token %q: %d, want %d: %s", method, token, got, want, body)
			}
		}
	}
	if got, body := f.ask(t, "POST", "/v1/holds", "ops", "Content-Type", "application/json", "Origin", "https://evil.example"); got != 403 {
		t.Errorf("by a page of another origin: %d: %s", got, body)
	}
	if _, body := f.ask(t, "GET", "/v1/holds", "read"); strings.Contains(body, `"orders"`) {
		t.Fatalf("it is held: %s", body)
	}
	if got, body := f.ask(t, "POST", "/v1/holds", "ops", as...); got != 200 {
		t.Fatalf("by an operator: %d: %s", got, body)
	}
	if got, body := f.ask(t, "DELETE", "/v1/holds/orders/1", "ops", as...); got != 200 && got != 204 {
		t.Fatalf("released by an operator: %d: %s", got, body)
	}
	_, body := f.ask(t, "GET", "/v1/events", "read")
	if strings.Count(body, `"kind":"operator"`) != 2 || strings.Count(body, `"caller":"token ops"`) < 2 || !strings.Contains(body, "from 127.0.0.1") {
		t.Errorf("the events tell of it so: %s", body)
	}
}

// The second connection of one process is spared the handshake.
func TestClientsResumeTheirSessions(t *testing.T) {
	f := fortress(t, Settings{})
	r := f.open(t, "orders")
	l := register(t, r, "orders")
	before := await(t, l, "listed", listed)
	if full, resumed := f.gate.certs.Handshakes(); full != 1 || resumed != 0 {
		t.Fatalf("before: %d in full, %d resumed", full, resumed)
	}
	data, err := os.ReadFile(f.tokens)
	if err != nil {
		t.Fatal(err)
	}
	// Other roles end its streams, and it connects anew.
	if err := access.Replace(f.tokens, []byte(strings.Replace(string(data), "roles=register:orders", "roles=read,register:orders", 1))); err != nil {
		t.Fatal(err)
	}
	await(t, l, "back", func(s registry.State) bool { return s.Listed && s.Since.After(before.Since) })
	if full, resumed := f.gate.certs.Handshakes(); full != 1 || resumed != 1 {
		t.Errorf("after: %d in full, %d resumed", full, resumed)
	}
}

func TestANodeWithoutItsFilesDoesNotStart(t *testing.T) {
	folder := t.TempDir()
	s := Settings{GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Cert: folder + "/c", Key: folder + "/k", Tokens: folder + "/t", LogLevel: "error"}
	n, err := New(Config{Settings: s})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	go func() {
		select {
		case <-n.Ready(): // it shouldn't be: then it would run on
			cancel()
		case <-ctx.Done():
		}
	}()
	err = n.Run(ctx)
	if eider.KindOf(err) != eider.Invalid || !strings.Contains(err.Error(), folder+"/c") || !strings.Contains(err.Error(), folder+"/t") {
		t.Errorf("%v", err)
	}
}

func TestBeyondLoopbackNeedsTLSAndTokens(t *testing.T) {
	full := Settings{GRPC: "0.0.0.0:1", HTTP: ":2", Metrics: "10.0.0.7:3", Cert: "c", Key: "k", Tokens: "t"}
	if err := full.Check(); err != nil {
		t.Errorf("with all: %v", err)
	}
	for name, c := range map[string]struct {
		change func(*Settings)
		want   []string
	}{
		"no tokens":      {func(s *Settings) { s.Tokens = "" }, []string{"--grpc: \"0.0.0.0:1\" could be", "--http: \":2\" could be", "--metrics: \"10.0.0.7:3\" could be"}},
		"no certificate": {func(s *Settings) { s.Cert, s.Key = "", "" }, []string{"--grpc:", "--http:", "--metrics:"}},
		"grpc to all":    {func(s *Settings) { s.Tokens, s.InsecureGRPC = "", true }, []string{"--http:", "--metrics:"}},
		"http to all":    {func(s *Settings) { s.Tokens, s.InsecureHTTP = "", true }, []string{"--grpc:"}},
		"both to all":    {func(s *Settings) { s.Tokens, s.InsecureGRPC, s.InsecureHTTP = "", true, true }, nil},
		"a key too few":  {func(s *Settings) { s.Key = "" }, []string{"--cert: says nothing without --key"}},
		"clients alone":  {func(s *Settings) { *s = Settings{ClientCA: "x"} }, []string{"--client-ca: says nothing without --cert", "--client-ca: says nothing without --tokens"}},
		"no network":     {func(s *Settings) { s.DialNetworks = "10.0.0.0/8, x" }, []string{`dial-networks: "x" is no network`}},
		"no host":        {func(s *Settings) { s.Host = "a,http://b" }, []string{`host: "http://b" is no host's name`}},
	} {
		s := full
		c.change(&s)
		err := s.Check()
		if (err == nil) != (len(c.want) == 0) || err != nil && strings.Count(err.Error(), "\n")+1 != len(c.want) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v lacks %s", name, err, want)
			}
		}
	}
}

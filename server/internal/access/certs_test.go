package access

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func mint(t *testing.T) Minted {
	t.Helper()
	m, err := Mint(filepath.Join(t.TempDir(), "certs"), []string{"localhost", "127.0.0.1"}, "orders", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// listen serves TLS and answers each connection with one byte: whether it was resumed.
func listen(t testing.TB, c *Certs) string {
	t.Helper()
	lis, err := tls.Listen("tcp", "127.0.0.1:0", c.Config("h2"))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
			if conn.(*tls.Conn).HandshakeContext(context.Background()) == nil {
				_, _ = conn.Write([]byte("x"))
			}
			conn.Close()
		}
	}()
	t.Cleanup(func() { lis.Close(); <-done })
	return lis.Addr().String()
}

// visit connects, reads the byte and returns what was agreed.
func visit(address string, config *tls.Config) (tls.ConnectionState, error) {
	conn, err := (&tls.Dialer{Config: config, NetDialer: &net.Dialer{Timeout: 5 * time.Second}}).Dial("tcp", address)
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		return tls.ConnectionState{}, err
	}
	return conn.(*tls.Conn).ConnectionState(), nil
}

func trust(t testing.TB, ca string) *tls.Config {
	t.Helper()
	pem, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return &tls.Config{RootCAs: pool, ServerName: "localhost", NextProtos: []string{"h2"}, ClientSessionCache: tls.NewLRUClientSessionCache(0)}
}

func load(t *testing.T, cert, key, ca string) *Certs {
	t.Helper()
	c := NewCerts(cert, key, ca)
	if _, err := c.Reload(); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestHandshakesAreResumed(t *testing.T) {
	m := mint(t)
	c := load(t, m.Server, m.ServerKey, "")
	at, config := listen(t, c), trust(t, m.CA)
	for i := range 3 {
		state, err := visit(at, config)
		if err != nil {
			t.Fatal(err)
		}
		if state.DidResume != (i > 0) || state.Version != tls.VersionTLS13 || state.NegotiatedProtocol != "h2" {
			t.Errorf("connection %d: resumed %v, version %x, %s", i, state.DidResume, state.Version, state.NegotiatedProtocol)
		}
	}
	if full, resumed := c.Handshakes(); full != 1 || resumed != 2 {
		t.Errorf("%d in full, %d resumed", full, resumed)
	}
	old := trust(t, m.CA)
	old.MaxVersion = tls.VersionTLS12
	if conn, err := tls.Dial("tcp", at, old); err == nil {
		conn.Close()
		t.Error("TLS 1.2 is spoken")
	}
}

// A certificate that was changed on disk is shown to the next connection; one that can't be read isn't.
func TestCertificatesAreReadAgain(t *testing.T) {
	m, other := mint(t), mint(t)
	c := load(t, m.Server, m.ServerKey, "")
	at := listen(t, c)
	swap := func(from, to string) {
		t.Helper()
		data, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := Replace(to, data); err != nil {
			t.Fatal(err)
		}
	}
	if changed, err := c.Reload(); changed || err != nil {
		t.Fatalf("unchanged: %v, %v", changed, err)
	}
	swap(other.Server, m.Server) // its key isn't there yet
	if changed, err := c.Reload(); changed || err == nil {
		t.Fatalf("a certificate without its key: %v, %v", changed, err)
	}
	if changed, err := c.Reload(); changed || err != nil {
		t.Errorf("said twice: %v", err)
	}
	if _, err := visit(at, trust(t, m.CA)); err != nil {
		t.Errorf("while it can't be read: %v", err)
	}
	swap(other.ServerKey, m.ServerKey)
	if changed, err := c.Reload(); !changed || err != nil {
		t.Fatalf("mended: %v, %v", changed, err)
	}
	if _, err := visit(at, trust(t, other.CA)); err != nil {
		t.Errorf("the new one: %v", err)
	}
	if _, err := visit(at, trust(t, m.CA)); err == nil {
		t.Error("the old one is still shown")
	}
	if err := os.Chmod(m.ServerKey, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Reload(); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a key that all may read: %v", err)
	}
	if !c.Names("localhost") || c.Names("evil.example") {
		t.Error("names that the certificate has, or hasn't")
	}
}

// Who shows a certificate shows a good one; also when he resumes after its authority was taken out.
func TestClientCertificatesAreVerified(t *testing.T) {
	m, other := mint(t), mint(t)
	c := load(t, m.Server, m.ServerKey, m.CA)
	refused := make(chan net.Addr, 8)
	c.Refused = func(from net.Addr, _ error) { refused <- from }
	at := listen(t, c)
	with := func(cert, key string) *tls.Config {
		config := trust(t, m.CA)
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{pair}
		return config
	}
	if _, err := visit(at, trust(t, m.CA)); err != nil {
		t.Errorf("without a certificate, which a token may stand in for: %v", err)
	}
	if _, err := visit(at, with(other.Client, other.ClientKey)); err == nil || len(refused) != 1 {
		t.Errorf("a stranger's certificate passes, or nobody hears of it: %v, %d told", err, len(refused))
	}
	if _, err := visit(at, with(m.Server, m.ServerKey)); err == nil {
		t.Error("a server's certificate passes as a client's")
	}
	good := with(m.Client, m.ClientKey)
	for i := range 2 {
		if state, err := visit(at, good); err != nil || state.DidResume != (i > 0) {
			t.Fatalf("a good one: %v, resumed %v", err, state.DidResume)
		}
	}
	data, err := os.ReadFile(other.CA)
	if err != nil {
		t.Fatal(err)
	}
	if err := Replace(m.CA, data); err != nil {
		t.Fatal(err)
	}
	if changed, err := c.Reload(); !changed || err != nil {
		t.Fatal(changed, err)
	}
	if state, err := visit(at, good); err == nil {
		t.Errorf("its authority has gone, and it passes: resumed %v", state.DidResume)
	}
}

func TestMintOverwritesNothing(t *testing.T) {
	m := mint(t)
	before, err := os.ReadFile(m.CAKey)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Mint(filepath.Dir(m.CA), nil, "x", time.Now()); err == nil || !strings.Contains(err.Error(), "nothing is overwritten") {
		t.Errorf("a second time: %v", err)
	}
	after, _ := os.ReadFile(m.CAKey)
	if string(before) != string(after) {
		t.Error("the key was overwritten")
	}
	for _, path := range []string{m.CA, m.CAKey, m.Server, m.ServerKey, m.Client, m.ClientKey} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if info, err := os.Stat(filepath.Dir(m.CA)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder: %v, %v", info.Mode(), err)
	}
}

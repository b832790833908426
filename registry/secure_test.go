package registry

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
)

// A token isn't sent where others could read it.
func TestAttackTokenInClearText(t *testing.T) {
	shown := 0
	token := func() (string, error) { shown++; return "secret", nil }
	for remote, ok := range map[string]bool{"127.0.0.1:1": true, "[::1]:1": true, "10.0.0.7:1": false, "[2001:db8::1]:1": false} {
		at, err := net.ResolveTCPAddr("tcp", remote)
		if err != nil {
			t.Fatal(err)
		}
		k := &link{}
		k.ends.Store(&connEnd{local: at, remote: at})
		before := shown
		md, err := bearer{token, k}.GetRequestMetadata(t.Context())
		if (err == nil) != ok || ok && md["authorization"] != "Bearer secret" || shown-before != map[bool]int{true: 1}[ok] {
			t.Errorf("to %s in clear text: %v, %v", remote, md, err)
		}
		sealed := credentials.NewContextWithRequestInfo(t.Context(), credentials.RequestInfo{AuthInfo: credentials.TLSInfo{
			CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}})
		if md, err := (bearer{token, k}).GetRequestMetadata(sealed); err != nil || md["authorization"] == "" {
			t.Errorf("to %s encrypted: %v, %v", remote, md, err)
		}
	}
	if _, err := (bearer{token, &link{}}).GetRequestMetadata(context.Background()); err == nil {
		t.Error("shown before there is a connection")
	}
}

func TestSecurityIsReadFromTheEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	for _, text := range []string{"first\n", "second"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("EIDER_TOKEN_FILE", file)
		s, err := newSecurity(&Config{})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.token(); err != nil || got != strings.TrimSpace(text) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	if err := os.WriteFile(file, []byte("a secret\nand another"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readToken(file); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("two lines: %v", err)
	}
	t.Setenv("EIDER_CA", filepath.Join(t.TempDir(), "ca.pem"))
	s, err := newSecurity(&Config{})
	if err != nil || !s.secret() {
		t.Fatalf("EIDER_CA: %v", err)
	}
	if _, err := s.transport(); eider.KindOf(err) != eider.Invalid || !strings.Contains(err.Error(), "EIDER_CA") {
		t.Errorf("a file that isn't there: %v", err)
	}
	t.Setenv("EIDER_CERT", "x")
	r := Open(Config{})
	defer r.Close()
	if _, err := r.Register(Registration{Service: "orders", Address: "127.0.0.1:1"}); eider.KindOf(err) != eider.Invalid || !strings.Contains(err.Error(), "EIDER_KEY") {
		t.Errorf("a certificate without its key: %v", err)
	}
	r = Open(Config{TokenFile: file, Token: func() (string, error) { return "", nil }})
	defer r.Close()
	t.Setenv("EIDER_CERT", "")
	if _, err := newSecurity(&Config{TokenFile: file, Token: func() (string, error) { return "", nil }}); eider.KindOf(err) != eider.Invalid {
		t.Errorf("two tokens: %v", err)
	}
}

// An incarnation shows one secret with each attach, from the first on; what the node gives takes its place, and
// another incarnation has another.
func TestAnIncarnationShowsItsSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		if _, err := node.open(Config{}).Register(orders); err != nil {
			t.Fatal(err)
		}
		c := node.attach()
		m := until(c, (*pb.AttachRequest).GetRegister)
		own := m.GetSecret()
		if len(own) != 16 {
			t.Fatalf("the first attach shows %x", own)
		}
		c.bye <- nil // the answer is lost
		c = node.attach()
		if m = until(c, (*pb.AttachRequest).GetRegister); !slices.Equal(m.GetSecret(), own) {
			t.Fatalf("the second attach shows %x, the first %x", m.GetSecret(), own)
		}
		given := grant(m, 1)
		given.GetRegistered().Secret = []byte("sixteen bytes!!!")
		c.say(given)
		synctest.Wait()
		c.bye <- nil
		c = node.attach()
		for range 2 {
			if m = until(c, (*pb.AttachRequest).GetRegister); string(m.GetSecret()) != "sixteen bytes!!!" {
				t.Fatalf("after the node has given one it shows %x", m.GetSecret())
			}
			c.say(refusal(m, eider.Stale, 0))
		}
		if m = until(c, (*pb.AttachRequest).GetRegister); len(m.GetSecret()) != 16 || string(m.GetSecret()) == "sixteen bytes!!!" || slices.Equal(m.GetSecret(), own) {
			t.Errorf("another incarnation shows %x", m.GetSecret())
		}
	})
}

// A session that is resumed shows the certificate that it began with: so another certificate begins anew.
func TestAnotherCertificateIsShownAtOnce(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	write := func() {
		private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		about := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
		der, err := x509.CreateCertificate(rand.Reader, about, about, private.Public(), private)
		if err != nil {
			t.Fatal(err)
		}
		pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
		if err != nil {
			t.Fatal(err)
		}
		for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: pkcs8}} {
			if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	write()
	t.Setenv("EIDER_CERT", cert)
	t.Setenv("EIDER_KEY", key)
	s, err := newSecurity(&Config{})
	if err != nil {
		t.Fatal(err)
	}
	sessions := func() tls.ClientSessionCache {
		config, err := s.tls()
		if err != nil {
			t.Fatal(err)
		}
		return config.ClientSessionCache
	}
	first := sessions()
	if first == nil || sessions() != first {
		t.Error("sessions aren't resumed")
	}
	write()
	if sessions() == first {
		t.Error("the old certificate goes on being shown, by sessions that are resumed")
	}
}

package registry

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/eiderhq/eider"
)

// security is how a handle proves whom it talks to and who it is. Files are read anew for each connection, a token
// for each stream, so that what was changed on disk is shown with the next.
type security struct {
	config    *tls.Config // as given; nil: from the files, if there are any
	ca        string      // a file, or "system"
	cert, key string
	token     func() (string, error) // nil: none is shown

	mu       sync.Mutex
	sessions tls.ClientSessionCache // so that who comes back is spared most of the handshake
	trusted  []byte                 // what ca held when sessions began: they end with it
	shown    []byte                 // the certificate that sessions were begun with: likewise
}

// newSecurity takes what the configuration says, else the environment.
func newSecurity(cfg *Config) (*security, error) {
	s := &security{config: cfg.TLS, token: cfg.Token, sessions: tls.NewLRUClientSessionCache(0)}
	if s.config == nil {
		s.ca, s.cert, s.key = os.Getenv("EIDER_CA"), os.Getenv("EIDER_CERT"), os.Getenv("EIDER_KEY")
	}
	file := cfg.TokenFile
	if file == "" && s.token == nil {
		file = os.Getenv("EIDER_TOKEN_FILE")
	}
	if file != "" {
		if s.token != nil {
			return s, eider.Errorf(eider.Invalid, "open registry", "Config.Token and Config.TokenFile are both set; a process shows one token")
		}
		s.token = func() (string, error) { return readToken(file) }
	}
	if (s.cert == "") != (s.key == "") {
		return s, eider.Errorf(eider.Invalid, "open registry", "EIDER_CERT %q and EIDER_KEY %q: a certificate goes with its key; set both or neither", s.cert, s.key)
	}
	return s, nil
}

func readToken(file string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("the token's file can't be read: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if token == "" || strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		return "", fmt.Errorf("%s must hold one token alone, as `eider tokens add` has shown it", file)
	}
	return token, nil
}

// secret tells whether connections are encrypted.
func (s *security) secret() bool { return s.config != nil || s.ca != "" || s.cert != "" }

// transport returns how the next connection is secured.
func (s *security) transport() (credentials.TransportCredentials, error) {
	if !s.secret() {
		return insecure.NewCredentials(), nil
	}
	config, err := s.tls()
	if err != nil {
		return nil, &eider.Error{Kind: eider.Invalid, Err: err}
	}
	return credentials.NewTLS(config), nil
}

func (s *security) tls() (*tls.Config, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.config != nil {
		config := s.config.Clone()
		if config.ClientSessionCache == nil {
			config.ClientSessionCache = s.sessions
		}
		config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
		return config, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.ca != "" && s.ca != "system" {
		pem, err := os.ReadFile(s.ca)
		if err != nil {
			return nil, fmt.Errorf("EIDER_CA: %w; name the file of the authority that signed the registry's certificate", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("EIDER_CA: %s holds no certificate in PEM", s.ca)
		}
		if !bytes.Equal(pem, s.trusted) { // a session was begun on the word of an authority that may have gone
			s.trusted, s.sessions = pem, tls.NewLRUClientSessionCache(0)
		}
	}
	if s.cert != "" {
		pair, err := tls.LoadX509KeyPair(s.cert, s.key)
		if err != nil {
			return nil, fmt.Errorf("EIDER_CERT and EIDER_KEY: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
		if shown := pair.Certificate[0]; !bytes.Equal(shown, s.shown) { // a session that is resumed shows the one it began with
			s.shown, s.sessions = shown, tls.NewLRUClientSessionCache(0)
		}
	}
	config.ClientSessionCache = s.sessions
	return config, nil
}

// options are gRPC's for a link.
func (s *security) options(k *link) ([]grpc.DialOption, error) {
	creds, err := s.transport()
	if err != nil {
		return nil, err
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(creds)}
	if s.token != nil {
		options = append(options, grpc.WithPerRPCCredentials(bearer{s.token, k}))
	}
	return options, nil
}

// bearer shows a token at the opening of each stream of a link; never in clear text, but to this machine.
type bearer struct {
	token func() (string, error)
	link  *link
}

// RequireTransportSecurity is false since gRPC asks it before there is a connection; GetRequestMetadata looks at the
// connection itself.
func (bearer) RequireTransportSecurity() bool { return false }

// GetRequestMetadata returns the token's header.
func (b bearer) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	info, ok := credentials.RequestInfoFromContext(ctx)
	if encrypted := ok && credentials.CheckSecurityLevel(info.AuthInfo, credentials.PrivacyAndIntegrity) == nil; !encrypted && !b.link.near() {
		return nil, errClearText
	}
	token, err := b.token()
	if err != nil {
		return nil, err
	}
	if token == "" || strings.ContainsAny(token, "\r\n") {
		return nil, errors.New("the token is empty or has several lines")
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// errClearText is why a token isn't shown.
var errClearText = errors.New("a token isn't sent in clear text to another machine: set EIDER_CA (or Config.TLS), so that the connection is encrypted; " +
	"EIDER_CA=system trusts what this machine trusts")

// near tells whether the other end of the connection is on this machine.
func (k *link) near() bool {
	ends := k.ends.Load()
	if ends == nil || ends.remote == nil {
		return false
	}
	if _, unix := ends.remote.(*net.UnixAddr); unix {
		return true
	}
	at, err := netip.ParseAddrPort(ends.remote.String())
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// unsecured explains what an unencrypted word to an encrypted port, or the reverse, looks like; "" if it isn't that.
func unsecured(message string) string {
	switch {
	case strings.Contains(message, "first record does not look like a TLS handshake"):
		return "the registry doesn't speak TLS, and EIDER_CA, EIDER_CERT or Config.TLS ask for it: " + message
	case strings.Contains(message, "certificate signed by unknown authority"):
		return "the registry's certificate is of an authority that isn't trusted here: name its file with EIDER_CA: " + message
	}
	return ""
}

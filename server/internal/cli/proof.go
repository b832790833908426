package cli

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eiderhq/eider/server/internal/access"
)

// proof is how a command tells that the registry is the one it means, and who asks. Secrets come from files: what
// stands on a command line, everybody on the machine can read.
type proof struct {
	tls   *tls.Config // nil: the machine's authorities, if https is asked for
	token string
}

func (a *app) proofFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.tlsCA, "tls-ca", "", "`FILE` of the authority (PEM) that signed the registry's certificate (default $EIDER_CA)")
	cmd.Flags().StringVar(&a.tokenFile, "token-file", "", "`FILE` that holds the token to show (default $EIDER_TOKEN_FILE)")
}

// proof reads what the flags or the environment name.
func (a *app) proof() (p proof, err error) {
	ca := cmp.Or(a.tlsCA, a.Getenv("EIDER_CA"))
	cert, key := a.Getenv("EIDER_CERT"), a.Getenv("EIDER_KEY")
	if ca != "" || cert != "" {
		p.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if ca != "" && ca != "system" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return p, usage("the registry's authority (--tls-ca or EIDER_CA): %w", err)
		}
		p.tls.RootCAs = x509.NewCertPool()
		if !p.tls.RootCAs.AppendCertsFromPEM(pem) {
			return p, usage("the registry's authority (--tls-ca or EIDER_CA): %s holds no certificate in PEM", ca)
		}
	}
	if cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return p, usage("the certificate to show (EIDER_CERT and EIDER_KEY): %w", err)
		}
		p.tls.Certificates = []tls.Certificate{pair}
	}
	if file := cmp.Or(a.tokenFile, a.Getenv("EIDER_TOKEN_FILE")); file != "" {
		if p.token, err = access.ReadToken(file); err != nil {
			return p, usage("the token to show (--token-file or EIDER_TOKEN_FILE): %w", err)
		}
	}
	return p, nil
}

// mayBeShown holds a token back from a wire that others could read.
func (p *proof) mayBeShown(base *url.URL) error {
	host := base.Hostname()
	ip, err := netip.ParseAddr(host)
	if p.token == "" || base.Scheme == "https" || strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback() {
		return nil
	}
	return usage("a token isn't sent in clear text to another machine: write https://%s, and name the registry's authority with --tls-ca or EIDER_CA", base.Host)
}

// certificateFault tells whether the other end's certificate is what was wrong.
func certificateFault(err error) bool {
	_, verification := errors.AsType[*tls.CertificateVerificationError](err)
	return verification
}

package access

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"sync/atomic"
)

// Certs are a node's certificate, and the authority that signs its clients', if it asks for theirs.
type Certs struct {
	cert, key, clientCA string
	now                 atomic.Pointer[loaded]
	file                watched

	full, resumed atomic.Int64

	// Refused hears of a certificate that isn't let in, before its connection ends; nil: nobody does. Set it before
	// anything is served.
	Refused func(from net.Addr, err error)
}

type loaded struct {
	pair    tls.Certificate
	leaf    *x509.Certificate
	clients *x509.CertPool // nil: certificates aren't asked for
}

// NewCerts returns a node's certificate and key, and the authority of its clients' if one is named ("" for none),
// which Reload reads.
func NewCerts(cert, key, clientCA string) *Certs {
	c := &Certs{cert: cert, key: key, clientCA: clientCA, file: watched{paths: []string{cert, key}}}
	if clientCA != "" {
		c.file.paths = append(c.file.paths, clientCA)
	}
	return c
}

// Reload reads the files if one has changed, as [Keeper.Reload] does. Connections that stand go on; new ones get
// what was read.
func (c *Certs) Reload() (changed bool, err error) { return c.file.look(c.read) }

func (c *Certs) read() error {
	l := &loaded{}
	if _, err := readSecret(c.key); err != nil {
		return err
	}
	var err error
	if l.pair, err = tls.LoadX509KeyPair(c.cert, c.key); err != nil {
		return fmt.Errorf("%s and %s: %w", c.cert, c.key, err)
	}
	if l.leaf, err = x509.ParseCertificate(l.pair.Certificate[0]); err != nil {
		return fmt.Errorf("%s: %w", c.cert, err)
	}
	if c.clientCA != "" {
		pem, err := os.ReadFile(c.clientCA)
		if err != nil {
			return err
		}
		l.clients = x509.NewCertPool()
		if !l.clients.AppendCertsFromPEM(pem) {
			return fmt.Errorf("%s: holds no certificate in PEM", c.clientCA)
		}
	}
	c.now.Store(l)
	return nil
}

// Config returns the configuration of a listener that speaks the protocols named. TLS 1.3 alone: every client of
// ours has it, and so has every browser since 2020.
//
// Sessions are resumed: whoever comes back is spared certificates and signatures. Their tickets are this process'
// and live on when the files change, so who resumes is verified anew against what was read last.
func (c *Certs) Config(protocols ...string) *tls.Config {
	base := &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: protocols,
		GetCertificate:   func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &c.now.Load().pair, nil },
		VerifyConnection: func(state tls.ConnectionState) error { return c.agreed(&state) }}
	if c.clientCA == "" {
		return base
	}
	// A certificate is asked for, and verified by verify: against what was read last, also on resumption.
	base.ClientAuth = tls.RequestClientCert
	base.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		from := hello.Conn.RemoteAddr()
		one := base.Clone() // the tickets' keys stay base's
		one.GetConfigForClient = nil
		one.VerifyConnection = func(state tls.ConnectionState) error {
			err := c.agreed(&state)
			if err != nil && c.Refused != nil {
				c.Refused(from, err)
			}
			return err
		}
		return one, nil
	}
	return base
}

// agreed counts a handshake, and verifies who shook hands.
func (c *Certs) agreed(state *tls.ConnectionState) error {
	if state.DidResume {
		c.resumed.Add(1)
	} else {
		c.full.Add(1)
	}
	return c.verify(state)
}

// verify holds a client's certificate to the authority that was read last.
func (c *Certs) verify(state *tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return nil // a token may be shown instead
	}
	l := c.now.Load()
	if l.clients == nil {
		return nil
	}
	inter := x509.NewCertPool()
	for _, cert := range state.PeerCertificates[1:] {
		inter.AddCert(cert)
	}
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: l.clients, Intermediates: inter,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err
}

// Verified returns the certificate that a connection's client has shown, and that was verified; nil if it has shown
// none or isn't asked.
func (c *Certs) Verified(state *tls.ConnectionState) *x509.Certificate {
	if c == nil || c.clientCA == "" || state == nil || len(state.PeerCertificates) == 0 {
		return nil
	}
	return state.PeerCertificates[0]
}

// Names tells whether the node's certificate is for a host.
func (c *Certs) Names(host string) bool {
	return c != nil && c.now.Load().leaf.VerifyHostname(host) == nil
}

// Handshakes tells how many there were, in full and resumed.
func (c *Certs) Handshakes() (full, resumed int64) {
	if c == nil {
		return 0, 0
	}
	return c.full.Load(), c.resumed.Load()
}

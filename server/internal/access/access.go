// Package access answers: who is this, and what may it do?
//
// A [Book] is the file of identities: one line for each token (its hash alone) and each client certificate,
// with its roles. A [Keeper] holds the newest book that could be read. A [Guard] asks it who shows a token or a
// certificate; a nil guard lets everybody do everything, as a node on loopback does of which nothing else was
// said. [Certs] are the node's own certificate and the authority of its clients', both read again when their
// files change.
package access

import (
	"crypto/x509"
	"strings"
	"time"

	"github.com/eiderhq/eider"
)

// Roles are what an identity may do.
type Roles struct {
	Read     bool     // see services, instances, callers, drains, events, metrics
	Operate  bool     // hold, release and override; may read as well
	Register []string // services it may register, leave and follow for: a name, a beginning with * behind it, or * alone
}

// Identity is who shows a token or a certificate. nil is anybody, where nobody is asked.
type Identity struct {
	Name    string
	Kind    Kind
	Roles   Roles
	Expires time.Time // zero: never

	hash [hashSize]byte // of a token
}

// Kind tells what an identity shows.
type Kind string

// The kinds.
const (
	Token       Kind = "token"
	Certificate Kind = "cert"
)

// String names the identity as events, logs and limits do: "token ci"; "" for anybody.
func (i *Identity) String() string {
	if i == nil {
		return ""
	}
	return string(i.Kind) + " " + i.Name
}

// MayRead tells whether the identity may see what the node knows.
func (i *Identity) MayRead() bool { return i == nil || i.Roles.Read || i.Roles.Operate }

// MayOperate tells whether it may hold, release and override.
func (i *Identity) MayOperate() bool { return i == nil || i.Roles.Operate }

// MayFollow tells whether it may be a caller: whoever serves may call.
func (i *Identity) MayFollow() bool { return i.MayRead() || i.Registers() }

// MayShare tells whether it may tell of and change what breakers share: that is for programs of the fleet, and a token that
// only reads changes nothing for others.
func (i *Identity) MayShare() bool { return i.MayOperate() || i.Registers() }

// Registers tells whether it may register anything at all.
func (i *Identity) Registers() bool { return i == nil || len(i.Roles.Register) > 0 }

// MayRegister tells whether it may register instances of a service.
func (i *Identity) MayRegister(service string) bool {
	if i == nil {
		return true
	}
	for _, pattern := range i.Roles.Register {
		if beginning, ok := strings.CutSuffix(pattern, "*"); pattern == service || ok && strings.HasPrefix(service, beginning) {
			return true
		}
	}
	return false
}

// Guard tells who somebody is. nil asks nobody.
type Guard struct {
	Keeper *Keeper
	Now    func() time.Time // nil means time.Now
}

// Identify returns who shows a token ("" for none) or a verified certificate (nil for none). Whoever shows both is
// the token's: that one was chosen for this call. The error is eider.Denied and holds nothing of what was shown.
func (g *Guard) Identify(token string, cert *x509.Certificate) (*Identity, error) {
	if g == nil {
		return nil, nil
	}
	book, now := g.Keeper.Book(), g.now()
	switch {
	case token != "":
		return book.token(token, now)
	case cert != nil:
		return book.certificate(cert, now)
	}
	return nil, denied("nobody is let in without a token or a client certificate: programs name a token's file by EIDER_TOKEN_FILE; `eider tokens add` makes one")
}

// Still tells whether an identity is what it was when it came: its line stands, unchanged, and hasn't expired.
func (g *Guard) Still(i *Identity) bool {
	return g == nil || i != nil && g.Keeper.Book().still(i, g.now())
}

func (g *Guard) now() time.Time {
	if g.Now != nil {
		return g.Now()
	}
	return time.Now()
}

func denied(format string, args ...any) error { return eider.Errorf(eider.Denied, "", format, args...) }

// Denial is the error of an identity without a role; role reads like "read" or "register:orders".
func Denial(op string, i *Identity, role string) error {
	return eider.Errorf(eider.Denied, op, "%s hasn't the role %s: give it that in the file of tokens, or show another one", i, role)
}

// NameOf returns what a certificate is called: its first URI (as SPIFFE has it), else its common name, else its
// first DNS name.
func NameOf(cert *x509.Certificate) string {
	switch {
	case len(cert.URIs) > 0:
		return cert.URIs[0].String()
	case cert.Subject.CommonName != "":
		return cert.Subject.CommonName
	case len(cert.DNSNames) > 0:
		return cert.DNSNames[0]
	}
	return ""
}

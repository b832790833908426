package ledger

import (
	"crypto/sha256"
	"crypto/subtle"

	"github.com/eiderhq/eider"
)

// Who an incarnation is: its nonce stands in every view, so that it proves nothing. What does is a secret, which only
// its process and the nodes that it attached to know. A process may draw it itself and show it from the first attach
// on, so that it never depends on an answer that may be lost; for one that shows none the node draws it.

// Secret is 16 random bytes; all zero is none.
type Secret = [16]byte

// Proof is what a registration shows.
type Proof struct {
	Shown Secret // the incarnation's
	Fresh Secret // drawn for one that has none yet and shows none; zero: then it gets none
}

// digest is what is kept of a secret.
func digest(s Secret) (kept Secret) {
	if s == (Secret{}) {
		return kept
	}
	sum := sha256.Sum256(s[:])
	copy(kept[:], sum[:])
	return kept
}

// proven tells whether a registration of an incarnation that is known here shows its secret. One whose secret isn't
// known here is believed: it came from another node, or from a run that kept no memory.
func (e *entry) proven(p Proof) bool {
	shown := digest(p.Shown)
	return e.secret == (Secret{}) || subtle.ConstantTimeCompare(shown[:], e.secret[:]) == 1
}

// seal makes an incarnation's secret what it shows, or what was drawn for it, and returns it.
func (e *entry) seal(p Proof) Secret {
	if e.secret != (Secret{}) {
		return p.Shown
	}
	secret := p.Shown
	if secret == (Secret{}) {
		secret = p.Fresh
	}
	e.secret = digest(secret)
	return secret
}

func errUnproven(e *entry) error {
	return errorf(eider.Stale, "register", e.rec.Key, "incarnation %s has a secret that wasn't shown; a process that has lost it draws a new nonce", e.rec.Incarnation)
}

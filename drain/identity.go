package drain

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/eiderhq/eider"
)

// identity is who this process is to callers.
type identity struct {
	text  string // id@incarnation as last heard; what requests usually carry
	id    string // "" until the registry has said which
	nonce uint64
}

// learn takes the identity from the listing.
func (d *drainer) learn() *identity {
	s := d.listing.State()
	i := &identity{text: s.As.ID + "@" + s.In.String(), id: s.As.ID, nonce: s.In.Nonce}
	d.ident.Store(i)
	return i
}

// meant tells whether every Eider-To of a request names this process. Identity is the nonce and the
// id; the number only came later (R16).
func (d *drainer) meant(to []string) bool {
	if d.reg == nil {
		return true // no registry, no identity: somebody else may have listed this process
	}
	for _, text := range to {
		i := d.ident.Load()
		if i == nil {
			return false // not registered yet: it can't be this incarnation
		}
		if text != i.text && !i.names(text) && !d.learn().names(text) {
			return false
		}
	}
	return true
}

func (i *identity) names(to string) bool {
	id, text, err := splitTo(to)
	return err == nil && text.Nonce == i.nonce && (i.id == "" || id == i.id)
}

func splitTo(to string) (string, eider.Incarnation, error) {
	at := strings.LastIndexByte(to, '@')
	if at < 0 {
		return "", eider.Incarnation{}, errors.New("Eider-To: it must be id@incarnation")
	}
	in, err := eider.ParseIncarnation(to[at+1:])
	return to[:at], in, err
}

// misdirected answers a request that means somebody else, whose address this process has taken over.
// 421 says that nothing was done: it may be sent elsewhere, whatever its method.
func (d *drainer) misdirected(w http.ResponseWriter, to []string) {
	me := d.here()
	d.tally.misdirect()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(http.StatusMisdirectedRequest)
	fmt.Fprintf(w, "eider: this is %s, and the request is for %.300q: the address has changed hands. Nothing was done; ask the registry again and call another instance.\n", me, strings.Join(to, ", "))
}

// here says who this process is.
func (d *drainer) here() string {
	if i := d.ident.Load(); i != nil {
		return d.set.Service + " " + i.text
	}
	return "a process that isn't registered yet"
}

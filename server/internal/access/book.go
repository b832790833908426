package access

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/eiderhq/eider"
)

const hashSize = sha256.Size

// Bounds of a file of identities.
const (
	maxBook  = 4 << 20 // bytes
	maxLines = 20_000
	maxName  = 255 // bytes of an identity's name
)

// Book is what a file of identities says. It is never changed.
//
// Each line is one identity; what begins with # is for people:
//
//	token ci        sha256=9f86d0…  roles=read,operate               created=2026-03-01T12:00:00Z  expires=2026-06-01T12:00:00Z
//	token orders    sha256=60303a…  roles=register:orders            created=2026-03-01T12:00:00Z  expires=never
//	cert  web.prod  roles=register:web,register:assets-*,read        created=2026-03-01T12:00:00Z  expires=never
//
// A token's name may stand more than once, with another hash each: while one takes the other's place.
type Book struct {
	lines  []*Identity
	made   []time.Time // beside lines
	tokens map[[8]byte][]*Identity
	certs  map[string]*Identity
}

// Parse reads a file of identities and reports every fault as name:line.
func Parse(name string, data []byte) (*Book, error) {
	b := &Book{tokens: map[[8]byte][]*Identity{}, certs: map[string]*Identity{}}
	if len(data) > maxBook {
		return nil, fmt.Errorf("%s: has %d bytes, at most %d are read", name, len(data), maxBook)
	}
	var faults []error
	for n, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if text := strings.TrimSpace(line); text == "" || text[0] == '#' {
			continue
		}
		if err := b.add(line); err != nil {
			faults = append(faults, fmt.Errorf("%s:%d: %w", name, n+1, err))
		}
		if len(b.lines) > maxLines {
			return nil, fmt.Errorf("%s: has more than %d identities, the most that are read", name, maxLines)
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return b, nil
}

func (b *Book) add(line string) error {
	id, made, err := parseLine(line)
	if err != nil {
		return err
	}
	switch id.Kind {
	case Certificate:
		if b.certs[id.Name] != nil {
			return fmt.Errorf("cert %.40q stands in an earlier line already", id.Name)
		}
		b.certs[id.Name] = id
	case Token:
		at := [8]byte(id.hash[:])
		if slices.ContainsFunc(b.tokens[at], func(o *Identity) bool { return o.hash == id.hash }) {
			return errors.New("this token's hash stands in an earlier line already")
		}
		b.tokens[at] = append(b.tokens[at], id)
	}
	b.lines, b.made = append(b.lines, id), append(b.made, made)
	return nil
}

// parseLine reads one identity. No fault repeats a hash or what might be a token put here by mistake.
func parseLine(line string) (*Identity, time.Time, error) {
	words := strings.Fields(line)
	id := &Identity{Kind: Kind(words[0])}
	var made time.Time
	if id.Kind != Token && id.Kind != Certificate {
		return nil, made, errors.New("a line begins with token or cert")
	}
	if len(words) < 2 {
		return nil, made, errors.New("the name is missing, as in token ci …")
	}
	if id.Name = words[1]; CheckName(id.Name) != nil {
		return nil, made, CheckName(id.Name)
	}
	seen := map[string]bool{}
	for _, word := range words[2:] {
		key, value, ok := strings.Cut(word, "=")
		var err error
		switch {
		case !ok:
			err = errors.New("behind the name there are words like roles=read alone")
		case seen[key]:
			err = fmt.Errorf("%s is given twice", key)
		case key == "sha256" && id.Kind == Token:
			err = id.readHash(value)
		case key == "roles":
			id.Roles, err = ParseRoles(value)
		case key == "created":
			made, err = readTime(key, value)
		case key == "expires" && value != "never":
			id.Expires, err = readTime(key, value)
		case key != "expires":
			err = fmt.Errorf("%.40q is nothing that a %s has", key, id.Kind)
		}
		if err != nil {
			return nil, made, err
		}
		seen[key] = true
	}
	for _, key := range []string{"sha256", "roles", "created", "expires"} {
		if !seen[key] && (key != "sha256" || id.Kind == Token) {
			return nil, made, fmt.Errorf("%s= is missing", key)
		}
	}
	return id, made, nil
}

func (i *Identity) readHash(text string) error {
	if n, err := hex.Decode(i.hash[:], []byte(text[:min(len(text), 2*hashSize)])); err != nil || n != hashSize || len(text) != 2*hashSize {
		return fmt.Errorf("sha256 must be %d hexadecimal digits", 2*hashSize)
	}
	return nil
}

func readTime(key, value string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return t, fmt.Errorf("%s must be a time as in 2026-03-01T12:00:00Z", key)
	}
	return t, nil
}

// CheckName holds an identity's name to its form: it is a word of a line.
func CheckName(name string) error {
	bad := func(c rune) bool { return c <= ' ' || c >= 0x7f || c == '=' || c == '#' }
	if name == "" || len(name) > maxName || strings.ContainsFunc(name, bad) {
		return fmt.Errorf("a name must have 1 to %d bytes of printable ASCII without space, = and #", maxName)
	}
	return nil
}

// ParseRoles reads roles as a line has them: read, operate and register:SERVICE, by commas.
func ParseRoles(text string) (r Roles, err error) {
	for role := range strings.SplitSeq(text, ",") {
		service, registers := strings.CutPrefix(role, "register:")
		switch {
		case role == "read":
			r.Read = true
		case role == "operate":
			r.Operate = true
		case registers && checkPattern(service) != nil:
			return r, fmt.Errorf("role register:%.40q names no service: write register:orders, register:team-* or register:*", service)
		case registers:
			r.Register = append(r.Register, service)
		default:
			return r, fmt.Errorf("%.40q is no role; read, operate and register:SERVICE are", role)
		}
	}
	return r, nil
}

// checkPattern holds a service's name, or the beginning of some with * behind it, to the form of names.
func checkPattern(text string) error {
	if beginning, ok := strings.CutSuffix(text, "*"); ok {
		return eider.CheckService(beginning + "x")
	}
	return eider.CheckService(text)
}

// String writes roles as ParseRoles reads them.
func (r Roles) String() string {
	var words []string
	if r.Read {
		words = append(words, "read")
	}
	if r.Operate {
		words = append(words, "operate")
	}
	for _, service := range r.Register {
		words = append(words, "register:"+service)
	}
	return strings.Join(words, ",")
}

// token finds who holds a token. A token has 256 random bits, so that nobody guesses one from its SHA-256 at any
// speed: what bcrypt is for, slow down guesses at what people think up, has no use here, and would cost each stream
// a tenth of a second. The eight bytes that find the line are of the hash, which whoever asks can't steer; what
// decides takes the same time for every answer.
func (b *Book) token(text string, now time.Time) (*Identity, error) {
	sum := sha256.Sum256([]byte(text))
	for _, id := range b.tokens[[8]byte(sum[:])] {
		if subtle.ConstantTimeCompare(sum[:], id.hash[:]) == 1 {
			return id, id.expired(now)
		}
	}
	return nil, denied("the token isn't known here: it was revoked, or is another registry's; `eider tokens add` makes one")
}

func (b *Book) certificate(cert *x509.Certificate, now time.Time) (*Identity, error) {
	name := NameOf(cert)
	id := b.certs[name]
	if id == nil {
		return nil, denied("the certificate %.80q has no line in the file of tokens: `eider tokens add --cert` writes one", name)
	}
	return id, id.expired(now)
}

func (i *Identity) expired(now time.Time) error {
	if i.Expires.IsZero() || now.Before(i.Expires) {
		return nil
	}
	return denied("%s has expired on %s: make a new one with `eider tokens add`", i, i.Expires.UTC().Format(time.RFC3339))
}

func (b *Book) still(id *Identity, now time.Time) bool {
	if id.expired(now) != nil {
		return false
	}
	return slices.ContainsFunc(b.alike(id), func(o *Identity) bool { return o.hash == id.hash && reflect.DeepEqual(o, id) })
}

func (b *Book) alike(id *Identity) []*Identity {
	if id.Kind == Token {
		return b.tokens[[8]byte(id.hash[:])]
	}
	if one := b.certs[id.Name]; one != nil {
		return []*Identity{one}
	}
	return nil
}

// expires tells when the next identity does; the zero time if none will.
func (b *Book) expires(now time.Time) (next time.Time) {
	for _, id := range b.lines {
		if id.Expires.After(now) && (next.IsZero() || id.Expires.Before(next)) {
			next = id.Expires
		}
	}
	return next
}

// Len tells how many identities there are.
func (b *Book) Len() int { return len(b.lines) }

// Line is one identity as `eider tokens list` shows it: nothing of it opens anything.
type Line struct {
	Kind    Kind      `json:"kind"`
	Name    string    `json:"name"`
	Roles   string    `json:"roles"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"`
	Hash    string    `json:"hash,omitempty"` // the beginning of it, to tell two of one name apart
}

// Lines returns all identities, in the file's order.
func (b *Book) Lines() []Line {
	out := make([]Line, 0, len(b.lines))
	for i, id := range b.lines {
		l := Line{Kind: id.Kind, Name: id.Name, Roles: id.Roles.String(), Created: b.made[i], Expires: id.Expires}
		if id.Kind == Token {
			l.Hash = hex.EncodeToString(id.hash[:4])
		}
		out = append(out, l)
	}
	return out
}

// AppendLine writes an identity's line behind what a file has; token is "" for a certificate.
func AppendLine(data []byte, id Identity, token string, made time.Time) []byte {
	if len(data) > 0 && !bytes.HasSuffix(data, []byte("\n")) {
		data = append(data, '\n')
	}
	data = fmt.Appendf(data, "%-5s %s", id.Kind, id.Name)
	if id.Kind == Token {
		data = fmt.Appendf(data, " sha256=%x", sha256.Sum256([]byte(token)))
	}
	expires := "never"
	if !id.Expires.IsZero() {
		expires = id.Expires.UTC().Format(time.RFC3339)
	}
	return fmt.Appendf(data, " roles=%s created=%s expires=%s\n", id.Roles, made.UTC().Format(time.RFC3339), expires)
}

// Remove takes the lines of a name out, but for the newest if keep says so, and tells how many went. Everything
// else stays as it is, comments too.
func Remove(data []byte, kind Kind, name string, keep bool) (left []byte, removed int) {
	lines := strings.SplitAfter(string(data), "\n")
	last := -1
	for i, line := range lines {
		if of(line, kind, name) {
			last = i
		}
	}
	for i, line := range lines {
		if of(line, kind, name) && !(keep && i == last) {
			removed++
			continue
		}
		left = append(left, line...)
	}
	return left, removed
}

func of(line string, kind Kind, name string) bool {
	words := strings.Fields(line)
	return len(words) > 1 && words[0] == string(kind) && words[1] == name
}

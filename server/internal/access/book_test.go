package access

import (
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/eiderhq/eider"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func line(kind, name, token, roles, expires string) string {
	hash := ""
	if kind == "token" {
		hash = fmt.Sprintf(" sha256=%x", sha256.Sum256([]byte(token)))
	}
	return fmt.Sprintf("%s %s%s roles=%s created=2026-03-01T12:00:00Z expires=%s\n", kind, name, hash, roles, expires)
}

func keep(t *testing.T, text string) (*Keeper, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	k := NewKeeper(path)
	if _, err := k.Reload(); err != nil {
		t.Fatal(err)
	}
	return k, path
}

func TestRoles(t *testing.T) {
	k, _ := keep(t, "# who\n\n"+line("token", "ci", "a", "read,operate", "never")+line("token", "orders", "b", "register:orders,register:team-*", "2026-03-02T12:00:00Z")+
		line("token", "any", "c", "register:*", "never")+line("token", "looks", "d", "read", "never"))
	g := &Guard{Keeper: k, Now: func() time.Time { return noon }}
	for token, want := range map[string]string{"a": "token ci R.O..F", "b": "token orders ..." + "12F", "c": "token any ..." + "12F", "d": "token looks R....F"} {
		i, err := g.Identify(token, nil)
		if err != nil {
			t.Fatal(err)
		}
		mark := func(ok bool, c string) string {
			if ok {
				return c
			}
			return "."
		}
		got := i.String() + " " + mark(i.MayRead(), "R") + mark(i.Registers() && i.MayRead(), "B") + mark(i.MayOperate(), "O") +
			mark(i.MayRegister("orders"), "1") + mark(i.MayRegister("team-x"), "2") + mark(i.MayFollow(), "F")
		if got != want {
			t.Errorf("token %s: %q, want %q", token, got, want)
		}
		if i.MayRegister("billing") != (token == "c") {
			t.Errorf("token %s may register billing: %v", token, token != "c")
		}
	}
	g.Now = func() time.Time { return noon.AddDate(0, 0, 1) }
	if _, err := g.Identify("b", nil); eider.KindOf(err) != eider.Denied || !strings.Contains(err.Error(), "has expired on 2026-03-02") {
		t.Errorf("an expired token: %v", err)
	}
	for _, token := range []string{"", "x", "A", "a "} {
		if i, err := g.Identify(token, nil); eider.KindOf(err) != eider.Denied || i != nil {
			t.Errorf("token %q: %v, %v", token, i, err)
		} else if token != "" && strings.Contains(err.Error(), `"`+token+`"`) {
			t.Errorf("the error repeats what was shown: %v", err)
		}
	}
	var nobody *Guard
	if i, err := nobody.Identify("x", nil); i != nil || err != nil || !i.MayOperate() || !i.MayRegister("x") || !i.MayFollow() || i.String() != "" {
		t.Errorf("where nobody is asked: %v, %v", i, err)
	}
}

func TestCertificatesHaveTheRolesOfTheirLine(t *testing.T) {
	k, _ := keep(t, line("cert", "web.prod", "", "register:web", "never")+line("cert", "spiffe://x/web", "", "read", "never"))
	g := &Guard{Keeper: k}
	uri, _ := url.Parse("spiffe://x/web")
	for _, c := range []struct {
		cert *x509.Certificate
		want string
	}{
		{&x509.Certificate{Subject: pkix.Name{CommonName: "web.prod"}}, "cert web.prod"},
		{&x509.Certificate{DNSNames: []string{"web.prod"}}, "cert web.prod"},
		{&x509.Certificate{Subject: pkix.Name{CommonName: "web.prod"}, URIs: []*url.URL{uri}}, "cert spiffe://x/web"},
		{&x509.Certificate{Subject: pkix.Name{CommonName: "other"}, DNSNames: []string{"web.prod"}}, ""},
		{&x509.Certificate{}, ""},
	} {
		i, err := g.Identify("", c.cert)
		if i.String() != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%v: %v, %v; want %q", c.cert.Subject, i, err, c.want)
		}
	}
	if _, err := g.Identify("wrong", &x509.Certificate{Subject: pkix.Name{CommonName: "web.prod"}}); err == nil {
		t.Error("a wrong token beside a good certificate is let in")
	}
}

func TestEveryFaultOfAFileIsNamedByItsLine(t *testing.T) {
	good := strings.TrimSpace(line("token", "ci", "a", "read", "never"))
	hash := strings.Fields(good)[2]
	for text, want := range map[string]string{
		"user ci": "f:1: a line begins with token or cert",
		"token":   "f:1: the name is missing",
		"token a=b " + hash + " roles=read created=2026-03-01T12:00:00Z expires=never": "f:1: a name must have",
		good + "\n" + good: "f:2: this token's hash stands in an earlier line already",
		"token ci roles=read created=2026-03-01T12:00:00Z expires=never":   "f:1: sha256= is missing",
		"token ci " + hash + " created=2026-03-01T12:00:00Z expires=never": "f:1: roles= is missing",
		"token ci " + hash + " roles=read expires=never":                   "f:1: created= is missing",
		"token ci " + hash + " roles=read created=2026-03-01T12:00:00Z":    "f:1: expires= is missing",
		good + " color=red":  `f:1: "color" is nothing that a token has`,
		good + " roles=read": "f:1: roles is given twice",
		good + " secret":     "f:1: behind the name there are words like roles=read alone",
		"token ci sha256=12 roles=read created=2026-03-01T12:00:00Z expires=never":                                                   "f:1: sha256 must be 64 hexadecimal digits",
		"token ci " + hash + "0 roles=read created=2026-03-01T12:00:00Z expires=never":                                               "f:1: sha256 must be 64",
		"token ci " + hash + " roles=reed created=2026-03-01T12:00:00Z expires=never":                                                `f:1: "reed" is no role`,
		"token ci " + hash + " roles=register: created=2026-03-01T12:00:00Z expires=never":                                           "f:1: role register:",
		"token ci " + hash + " roles=register:a/b created=2026-03-01T12:00:00Z expires=never":                                        "f:1: role register:",
		"token ci " + hash + " roles=read created=yesterday expires=never":                                                           "f:1: created must be a time",
		"token ci " + hash + " roles=read created=2026-03-01T12:00:00Z expires=soon":                                                 "f:1: expires must be a time",
		"cert c " + hash + " roles=read created=2026-03-01T12:00:00Z expires=never":                                                  `f:1: "sha256" is nothing that a cert has`,
		"cert c roles=read created=2026-03-01T12:00:00Z expires=never\ncert c roles=read created=2026-03-01T12:00:00Z expires=never": "f:2: cert \"c\" stands",
	} {
		if _, err := Parse("f", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if _, err := Parse("f", []byte("x\ny\n")); err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("two faults: %v", err)
	}
}

// A file that can't be read any more leaves who was let in, says so once, and is read once it can be.
func TestABrokenFileLeavesTheOldOne(t *testing.T) {
	k, path := keep(t, line("token", "ci", "a", "read", "never"))
	g := &Guard{Keeper: k}
	write := func(text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	known := func(token string) bool { _, err := g.Identify(token, nil); return err == nil }
	if changed, err := k.Reload(); changed || err != nil {
		t.Fatalf("unchanged: %v, %v", changed, err)
	}
	write("nonsense\n", 0o600)
	if changed, err := k.Reload(); changed || err == nil || !known("a") {
		t.Fatalf("broken: %v, %v, known %v", changed, err, known("a"))
	}
	if changed, err := k.Reload(); changed || err != nil {
		t.Errorf("said twice: %v", err)
	}
	write(line("token", "ci", "b", "read", "never"), 0o644)
	if changed, err := k.Reload(); changed || err == nil || !strings.Contains(err.Error(), "chmod 600") || known("b") {
		t.Fatalf("readable by all: %v, %v", changed, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if changed, err := k.Reload(); changed || !errors.Is(err, os.ErrNotExist) || !known("a") {
		t.Fatalf("gone: %v, %v", changed, err)
	}
	was, err := g.Identify("a", nil)
	if err != nil {
		t.Fatal(err)
	}
	write(line("token", "ci", "a", "read,operate", "never")+line("token", "ci", "b", "read", "never"), 0o600)
	if changed, err := k.Reload(); !changed || err != nil || !known("b") || g.Still(was) {
		t.Fatalf("mended: %v, %v; b known %v; a with other roles still the same %v", changed, err, known("b"), g.Still(was))
	}
	now, _ := g.Identify("b", nil)
	write(line("token", "other", "x", "read", "never")+line("token", "ci", "b", "read", "never"), 0o600)
	if changed, err := k.Reload(); !changed || err != nil || !g.Still(now) || known("a") {
		t.Errorf("b stayed: still %v; a revoked: known %v", g.Still(now), known("a"))
	}
}

func TestLinesAreWrittenAsTheyAreRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var data []byte
		var want []string
		for i := range rapid.IntRange(0, 5).Draw(t, "lines") {
			id := Identity{Kind: Token, Name: rapid.StringMatching(`[a-z.:/-]{1,20}`).Draw(t, "name") + fmt.Sprint(i)}
			if rapid.Bool().Draw(t, "cert") {
				id.Kind = Certificate
			}
			id.Roles.Operate = rapid.Bool().Draw(t, "operate")
			id.Roles.Read = rapid.Bool().Draw(t, "read")
			id.Roles.Register = rapid.SliceOfN(rapid.StringMatching(`([a-z]{1,9}\*?|\*)`), 0, 3).Draw(t, "register")
			if id.Roles.String() == "" {
				id.Roles.Read = true
			}
			if rapid.Bool().Draw(t, "expires") {
				id.Expires = noon.Add(time.Hour)
			}
			token := ""
			if id.Kind == Token {
				token = NewToken()
			}
			data = AppendLine(data, id, token, noon)
			want = append(want, fmt.Sprintf("%s %s %s %d", id.Kind, id.Name, id.Roles, id.Expires.Unix()))
			if strings.Contains(string(data), "eider_") {
				t.Fatal("a token stands in the file")
			}
		}
		book, err := Parse("f", data)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, l := range book.Lines() {
			got = append(got, fmt.Sprintf("%s %s %s %d", l.Kind, l.Name, l.Roles, l.Expires.Unix()))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
		for _, l := range book.Lines() {
			left, n := Remove(data, l.Kind, l.Name, false)
			if rest, err := Parse("f", left); err != nil || n != 1 || rest.Len() != book.Len()-1 {
				t.Fatalf("removing %s: %d, %v", l.Name, n, err)
			}
		}
	})
}

func TestRemoveKeepsTheNewest(t *testing.T) {
	data := []byte("# mine\n" + line("token", "ci", "a", "read", "never") + line("token", "x", "b", "read", "never") + line("token", "ci", "c", "read", "never"))
	left, n := Remove(data, Token, "ci", true)
	if book, err := Parse("f", left); err != nil || n != 1 || book.Len() != 2 || !strings.HasPrefix(string(left), "# mine\n") {
		t.Fatalf("%d removed: %s (%v)", n, left, err)
	} else if _, err := book.token("c", noon); err != nil {
		t.Error("the newest went")
	}
}

func TestTokensAreRandomAndReadBack(t *testing.T) {
	a, b := NewToken(), NewToken()
	if a == b || len(a) != len("eider_")+43 || !strings.HasPrefix(a, "eider_") {
		t.Errorf("%q, %q", a, b)
	}
	path := filepath.Join(t.TempDir(), "token")
	for text, ok := range map[string]bool{a + "\n": true, a: true, "": false, a + "\n" + b: false, " ": false} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadToken(path); (err == nil) != ok || ok && got != a {
			t.Errorf("%q: %q, %v", text, got, err)
		} else if err != nil && strings.Contains(err.Error(), "eider_") {
			t.Errorf("the error holds the token: %v", err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(line("token", "ci", "a", "read,operate", "never")))
	f.Add([]byte(line("cert", "c", "", "register:*", "2026-03-02T12:00:00Z") + "# x\n\r\n"))
	f.Add([]byte("token  = ="))
	f.Add([]byte("\x00token a sha256="))
	f.Fuzz(func(t *testing.T, data []byte) {
		book, err := Parse("f", data)
		if err != nil {
			for one := range strings.SplitSeq(err.Error(), "\n") {
				if !strings.HasPrefix(one, "f:") {
					t.Errorf("a fault without its place: %q", one)
				}
			}
			return
		}
		for _, l := range book.Lines() {
			if CheckName(l.Name) != nil || l.Roles == "" {
				t.Errorf("%+v", l)
			}
		}
	})
}

package drain

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/eiderhq/eider"
)

// An address that has changed hands: whoever means its former owner gets 421, and no handler runs.
func TestR16MismatchIsMisdirected(t *testing.T) {
	handled := make(chan string, 100)
	r := begin(t, func(w http.ResponseWriter, req *http.Request) {
		handled <- req.URL.Path
		hello(w, req)
	}, nil)
	for to, status := range map[string]int{
		"1@" + me.String():                    http.StatusOK,
		"1@0000000000000abc":                  http.StatusOK, // from before the number was known
		"1@2-0000000000000abc":                http.StatusOK, // equality is by nonce
		"2@" + me.String():                    http.StatusMisdirectedRequest,
		"1@3-0000000000000def":                http.StatusMisdirectedRequest, // the same id, as of two services that swap ports
		"pay@" + me.String():                  http.StatusMisdirectedRequest,
		"1":                                   http.StatusMisdirectedRequest,
		"@":                                   http.StatusMisdirectedRequest,
		"":                                    http.StatusMisdirectedRequest,
		"1@3-0000000000000abc@" + me.String(): http.StatusMisdirectedRequest,
	} {
		p := r.dial()
		p.send("/", "Eider-To: "+to)
		resp, body := p.answer()
		if resp.StatusCode != status {
			t.Errorf("%q gets %d, want %d", to, resp.StatusCode, status)
		}
		if status == http.StatusOK {
			soon(t, handled, "the handler")
		} else if !strings.Contains(body, "this is orders 1@3-0000000000000abc") || !strings.Contains(body, "Nothing was done") {
			t.Errorf("%q is told %q", to, body)
		}
	}
	if len(handled) > 0 {
		t.Errorf("a handler ran for %q", <-handled)
	}
	r.leave()
	p := r.dial()
	p.send("/", "Eider-To: 2@"+me.String())
	if resp, _ := p.answer(); resp.StatusCode != http.StatusMisdirectedRequest || !resp.Close || resp.Header.Get("Eider-Leaving") != me.String() {
		t.Errorf("after the leave: %v", resp)
	}
	r.barrier()
	if rep := r.end(); rep.Misdirected != 1 || rep.ServedAfterLeave != 0 {
		t.Errorf("%+v", rep)
	}
}

// A handler that passes a request on, as httputil.ReverseProxy does with all headers, doesn't tell the next
// process that the request is for this one: that would answer 421.
func TestR16IdentityIsOneHops(t *testing.T) {
	back := begin(t, hello, nil)
	back.reg.becomes(func() { back.reg.state.As.ID = "2" })
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: back.addr})
	proxy.Transport = &http.Transport{DisableKeepAlives: true}
	front := begin(t, proxy.ServeHTTP, nil)
	p := front.dial()
	p.send("/", "Eider-To: 1@"+me.String())
	if resp, body := p.answer(); resp.StatusCode != http.StatusOK {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	for _, r := range []*run{front, back} {
		r.leave()
		r.barrier()
		r.end()
	}
}

// An id that the registry gives later is learned.
func TestR16IdentityIsLearned(t *testing.T) {
	s := newScript()
	s.state.As.ID, s.state.In.Number = "", 0
	d := &drainer{reg: s}
	if d.meant([]string{"1@" + me.String()}) {
		t.Error("before the registration it means nobody here")
	}
	d.listing = s
	d.learn()
	if !d.meant([]string{"anything@" + me.String()}) {
		t.Error("while the id isn't known, the nonce decides")
	}
	s.state.As.ID = "10.0.0.7:80"
	d.learn()
	if d.meant([]string{"anything@" + me.String()}) || !d.meant([]string{"10.0.0.7:80@" + me.String()}) {
		t.Error("once it is known, both decide")
	}
	s.state.As.ID = "10.0.0.8:80" // not yet learned by the watch
	if !d.meant([]string{"10.0.0.8:80@" + me.String()}) {
		t.Error("a mismatch looks again before it refuses")
	}
	if d.meant([]string{"10.0.0.8:80@" + me.String(), "else@" + me.String()}) {
		t.Error("each of several must match")
	}
	if !(&drainer{}).meant([]string{"who@ever"}) {
		t.Error("without a registry there is nothing to compare with")
	}
}

func FuzzEiderTo(f *testing.F) {
	for _, seed := range []string{"", "@", "1@", "@3-0000000000000abc", "1@3-0000000000000abc", "1@0000000000000abc", "a@b@3-0000000000000abc", "1@-", "1@0-0000000000000abc"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, to string) {
		i := &identity{id: "1", nonce: me.Nonce}
		if !i.names(to) {
			return
		}
		id, in, err := splitTo(to)
		if err != nil || id != "1" || !in.Is(eider.Incarnation{Nonce: me.Nonce}) || !strings.HasPrefix(to, "1@") {
			t.Errorf("%q passes for %v", to, i)
		}
	})
}

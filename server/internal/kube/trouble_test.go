package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/eiderhq/eider/server/internal/kube/kubetest"
)

// ailment is a way in which the API doesn't help.
type ailment struct {
	with    func(*world)
	outcome Outcome
	words   string
}

// always answers so whatever is asked.
func always(answer func(http.ResponseWriter, *http.Request)) func(*world) {
	return func(w *world) {
		w.api.Answer(func(rw http.ResponseWriter, r *http.Request) bool {
			answer(rw, r)
			return true
		})
	}
}

// once is for what takes long to send: from the second time on nothing comes.
func once(answer func(http.ResponseWriter, *http.Request)) func(*world) {
	first := true
	return always(func(rw http.ResponseWriter, r *http.Request) {
		if first || r.URL.Query().Has("continue") {
			first = false
			answer(rw, r)
		}
	})
}

func body(text string) func(*world) {
	return always(func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, text) })
}

func says(code int, message string) func(*world) {
	return always(func(rw http.ResponseWriter, _ *http.Request) { kubetest.Status(rw, code, "Reason", message) })
}

// Whatever is wrong with the API, the pause is all that a pod's removal takes, and never nothing; it says why.
func TestTheApiDoesntHelp(t *testing.T) {
	sicken(t, map[string]ailment{
		"away":           {func(w *world) { w.api.Close() }, Away, "connection refused"},
		"unreachable":    {func(w *world) { w.net.Partition(apiHost, podHost) }, Away, "the API can't be asked"},
		"hung":           {func(w *world) { w.net.Stall(apiHost) }, Away, "the API can't be asked"},
		"hung answer":    {always(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), Away, "no whole answer within 3s"},
		"hung body":      {always(hungBody), Away, "no whole answer within 3s"},
		"forbidden":      {func(w *world) { w.api.Deny(true) }, Denied, `the API answers 403: endpointslices.discovery.k8s.io is forbidden: User "system:serviceaccount:shop:default" cannot list`},
		"unauthorized":   {func(w *world) { w.api.SetToken("another") }, Denied, "the API answers 401: Unauthorized"},
		"no token":       {func(w *world) { os.Remove(w.dir + "/token") }, Denied, "the service account's token can't be read"},
		"empty token":    {func(w *world) { w.file("token", " \n") }, Denied, "holds no token"},
		"token of two":   {func(w *world) { w.file("token", "a\nb") }, Denied, "holds no token"},
		"not found":      {says(404, "the server could not find the requested resource"), Unnamed, "404: the server could not find"},
		"bare not found": {always(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(404) }), Unnamed, "404: without a word that can be read"},
		"busy":           {says(429, "please try again"), Away, "429: please try again"},
		"ill":            {says(500, "etcdserver: no leader"), Away, "500: etcdserver: no leader"},
	})
}

func TestTheApiAnswersSomethingElse(t *testing.T) {
	sicken(t, map[string]ailment{
		"redirects": {always(func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, "https://elsewhere/", http.StatusFound)
		}), Away, `it sends to "https://elsewhere/", which isn't followed`},
		"a page":            {body("<html>log in</html>"), Away, "(\"text/html; charset=utf-8\") can't be read: invalid character '<'"},
		"empty":             {body(""), Away, "unexpected EOF"},
		"cut short":         {body(`{"kind":"EndpointSliceList","metadata":{"resourceVersion":"1"},"items":[`), Away, "unexpected EOF"},
		"another list":      {body(`{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":[]}`), Away, `kind "PodList"`},
		"no version":        {body(`{"kind":"EndpointSliceList","metadata":{},"items":[]}`), Away, `resourceVersion ""`},
		"a number":          {body(`17`), Away, "17 stands where { is expected"},
		"items of a kind":   {body(`{"kind":"EndpointSliceList","metadata":{"resourceVersion":"1"},"items":{"a":1}}`), Away, "items are {"},
		"another shape":     {body(`{"kind":"EndpointSliceList","metadata":{"resourceVersion":"1"},"items":[{"endpoints":"none"}]}`), Away, "cannot unmarshal string"},
		"huge":              {once(huge), Away, "a value is too large"},
		"pages without end": {once(endless), Away, "more than 10000 slices"},
		"another's TLS": {func(w *world) {
			other, _ := kubetest.New("shop", apiHost, "x")
			w.file("ca.crt", string(other.CA()))
		}, Away, "failed to verify certificate"},
		"another's name": {func(w *world) {
			w.env["KUBERNETES_SERVICE_HOST"] = "10.96.0.2"
		}, Away, "not 10.96.0.2"},
	})
}

func sicken(t *testing.T, with map[string]ailment) {
	t.Helper()
	for name, c := range with {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.api.Put(slice1("orders-a", ready(podName, podHost), other))
				set := w.config()
				set.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
					return w.net.From(podHost).Dial(ctx, apiHost+":443")
				}
				c.with(w)
				r := w.leave(set)
				w.wants(r, c.outcome, 5*s, 5*s, c.words, "so the pause was all that a pod's removal takes: 5s = slice sync")
				if r.Role != (name == "forbidden") {
					w.t.Errorf("a Role helps: %v", r.Role)
				}
				if told := strings.Count(w.heard(), Role); told > 1 || told == 1 != r.Role {
					w.t.Errorf("the Role is told %d times", told)
				}
				if n := len(w.api.Requests()); name != "pages without end" && n > 50 {
					w.t.Errorf("it asked %d times", n)
				}
			})
		})
	}
}

func hungBody(rw http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(rw, `{"kind":"EndpointSliceList","meta`)
	_ = http.NewResponseController(rw).Flush()
	<-r.Context().Done()
}

// huge is one slice that is twice as long as any may be.
func huge(rw http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(rw, `{"kind":"EndpointSliceList","metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"`)
	for range 2 * ration / (32 << 10) {
		if _, err := io.WriteString(rw, strings.Repeat("a", 32<<10)); err != nil {
			return
		}
	}
}

// endless always has another page.
func endless(rw http.ResponseWriter, r *http.Request) {
	at := r.URL.Query().Get("continue")
	_, _ = io.WriteString(rw, `{"kind":"EndpointSliceList","metadata":{"resourceVersion":"1","continue":"`+at+`x"},"items":[`)
	for i := range 1000 {
		if i > 0 {
			_, _ = io.WriteString(rw, ",")
		}
		fmt.Fprintf(rw, `{"metadata":{"name":"%s%d","labels":{"kubernetes.io/service-name":"orders"}}}`, at, i)
	}
	_, _ = io.WriteString(rw, "]}")
}

// A trouble that passes costs nothing but its time.
func TestTroubleThatPasses(t *testing.T) {
	for name, with := range map[string]func(*world){
		"away at first": func(w *world) {
			w.net.Partition(apiHost, podHost)
			w.later(900*ms, func() { w.net.Heal(apiHost, podHost) })
		},
		"forbidden at first": func(w *world) {
			w.api.Deny(true)
			w.later(900*ms, func() { w.api.Deny(false) })
		},
		"the token rotates": func(w *world) {
			w.later(500*ms, func() {
				w.api.SetToken("secret-2")
				w.net.Cut(apiHost, podHost)
			})
			w.later(800*ms, func() { w.file("token", "secret-2") })
		},
		"the watch is cut": func(w *world) { w.later(900*ms, func() { w.net.Cut(apiHost, podHost) }) },
		"all watches are cut in the middle of an event": func(w *world) { w.api.Drop(3) },
		"events in pieces":     func(w *world) { w.api.Split(7) },
		"too old, by an event": func(w *world) { w.later(900*ms, func() { w.api.Compact(); w.net.Cut(apiHost, podHost) }) },
		"too old, by a status": func(w *world) {
			w.api.GoneByStatus()
			w.later(900*ms, func() { w.api.Compact(); w.net.Cut(apiHost, podHost) })
		},
		"a watch dies without a word": func(w *world) {
			w.later(600*ms, func() { w.net.Stall(apiHost) })
			w.later(1100*ms, func() { w.net.Resume(apiHost) })
		},
		"bookmarks":                     func(w *world) { w.later(300*ms, w.api.Bookmark); w.later(600*ms, w.api.Bookmark) },
		"a watch that is refused":       func(w *world) { w.api.Answer(refuseWatches(503)) },
		"a watch that is forbidden":     func(w *world) { w.api.Answer(refuseWatches(403)) },
		"a watch that isn't understood": func(w *world) { w.api.Answer(watchSays("{]")) },
		"an event of another type": func(w *world) {
			w.api.Answer(watchSays(`{"type":"SURPRISE","object":{"metadata":{"name":"x","resourceVersion":"1"}}}`))
		},
		"an event without a version": func(w *world) { w.api.Answer(watchSays(`{"type":"MODIFIED","object":{"metadata":{"name":"x"}}}`)) },
		"an error without a code":    func(w *world) { w.api.Answer(watchSays(`{"type":"ERROR","object":{}}`)) },
		"an event without an object": func(w *world) { w.api.Answer(watchSays(`{"type":"ADDED"}`)) },
		"watches end at once":        func(w *world) { w.api.Answer(watchSays("")) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.api.Put(slice1("orders-a", ready(podName, podHost), other))
				w.later(1000*ms, func() { w.api.Put(slice1("orders-a", leaving(podName, podHost), other)) })
				with(w)
				w.wants(w.leave(w.config()), Seen, 4*s, 7300*ms)
				if n := len(w.api.Requests()); n > 50 {
					w.t.Errorf("it asked %d times: %v", n, w.api.Requests())
				}
			})
		})
	}
}

func refuseWatches(code int) func(http.ResponseWriter, *http.Request) bool {
	return func(rw http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") == "" {
			return false
		}
		kubetest.Status(rw, code, "Refused", "no watches today")
		return true
	}
}

func watchSays(text string) func(http.ResponseWriter, *http.Request) bool {
	return func(rw http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") == "" {
			return false
		}
		_, _ = io.WriteString(rw, text)
		return true
	}
}

// A watch that was cut goes on where it was, and misses nothing; one that has been told of later versions goes on from there.
func TestAWatchGoesOnFromItsVersion(t *testing.T) {
	bubble(t, func(w *world) {
		w.api.Put(slice1("orders-a", ready(podName, podHost), other)) // 101
		w.later(200*ms, w.api.Bookmark)                               // 102
		w.later(400*ms, func() { w.net.Cut(apiHost, podHost) })
		w.later(401*ms, func() { w.api.Put(slice1("orders-a", leaving(podName, podHost), other)) }) // 103
		w.later(700*ms, func() { w.net.Cut(apiHost, podHost) })
		w.wants(w.leave(w.config()), Seen, 3400*ms, 3600*ms)
		if got, want := w.api.Requests(), []string{"list", "watch 101", "watch 102", "watch 103"}; len(got) < 4 || !slices.Equal(got[:4], want) {
			w.t.Errorf("it asked %v, want %v", got, want)
		}
	})
}

// A watch that is too old begins anew with a list, at once, whichever way it is told.
func TestTooOld(t *testing.T) {
	for _, byStatus := range []bool{false, true} {
		bubble(t, func(w *world) {
			if byStatus {
				w.api.GoneByStatus()
			}
			w.api.Put(slice1("orders-a", ready(podName, podHost), other)) // 101
			w.later(400*ms, func() {
				w.api.Put(slice1("orders-a", leaving(podName, podHost), other)) // 102
				w.api.Compact()                                                 // 103
			})
			w.api.Answer(func(_ http.ResponseWriter, r *http.Request) bool { // as if it had been away meanwhile
				if r.URL.Query().Get("resourceVersion") == "101" && len(w.api.Requests()) == 2 {
					<-r.Context().Done()
					return true
				}
				return false
			})
			w.later(500*ms, func() { w.net.Cut(apiHost, podHost) })
			w.wants(w.leave(w.config()), Seen, 3500*ms, 3700*ms)
			if got, want := w.api.Requests(), []string{"list", "watch 101", "watch 101", "list", "watch 103"}; len(got) < 5 || !slices.Equal(got[:5], want) {
				w.t.Errorf("it asked %v, want %v", got, want)
			}
			if strings.Contains(w.heard(), "too old") {
				w.t.Errorf("that is no trouble to speak of:\n%s", w.heard())
			}
		})
	}
}

// A connection may die so that nobody is told. A watch that is quiet is doubted, and a list says what has happened.
func TestAQuietWatchIsDoubted(t *testing.T) {
	bubble(t, func(w *world) {
		w.api.Put(slice1("orders-a", ready(podName, podHost), other))
		deaf := true
		w.api.Answer(func(rw http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Get("watch") == "" || !deaf {
				return false
			}
			deaf = false
			rw.WriteHeader(200)
			_ = http.NewResponseController(rw).Flush()
			<-r.Context().Done()
			return true
		})
		w.later(300*ms, func() { w.api.Put(slice1("orders-a", leaving(podName, podHost), other)) })
		w.wants(w.leave(w.config()), Seen, 5*s, 5200*ms)
	})
}

// The API that went away while the pod was still ready: from the last look on it may take all that a removal takes.
func TestAwayInTheMiddle(t *testing.T) {
	bubble(t, func(w *world) {
		w.api.Put(slice1("orders-a", ready(podName, podHost), other))
		w.later(2500*ms, func() { w.api.Close() })
		c := w.config()
		c.Grace = 60 * s
		w.wants(w.leave(c), Away, 7*s, 7100*ms, "orders-5d9c-x7k2p was ready when it was last looked for; now the API can't be asked")
	})
	bubble(t, func(w *world) { // once it is seen to be out, the API is of no more use
		w.api.Put(slice1("orders-a", leaving(podName, podHost), other))
		w.later(100*ms, func() { w.api.Close() })
		w.wants(w.leave(w.config()), Seen, 3*s, 3100*ms)
	})
}

// Whoever is asked for patience asks no sooner.
func TestRetryAfter(t *testing.T) {
	bubble(t, func(w *world) {
		w.api.Put(slice1("orders-a", leaving(podName, podHost), other))
		first := true
		w.api.Answer(func(rw http.ResponseWriter, _ *http.Request) bool {
			if !first {
				return false
			}
			first = false
			rw.Header().Set("Retry-After", "2")
			kubetest.Status(rw, 429, "TooManyRequests", "please try again")
			return true
		})
		w.wants(w.leave(w.config()), Seen, 5*s, 5500*ms)
		if got := w.api.Requests(); !slices.Equal(got[:2], []string{"list", "list"}) {
			w.t.Errorf("it asked %v", got)
		}
	})
}

// The token is for the API alone: what the environment has for proxies isn't asked, and a redirect isn't followed.
func TestTheTokenGoesToTheApiAlone(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://10.9.9.9:3128")
	bubble(t, func(w *world) {
		w.api.Put(slice1("orders-a", leaving(podName, podHost), other))
		c := w.config()
		c.Dial = func(ctx context.Context, _, address string) (net.Conn, error) {
			if address != apiHost+":443" {
				w.t.Errorf("it dials %s", address)
				return nil, errors.New("no")
			}
			return w.net.From(podHost).Dial(ctx, address)
		}
		first := true
		w.api.Answer(func(rw http.ResponseWriter, r *http.Request) bool {
			if first {
				first = false
				http.Redirect(rw, r, "https://10.9.9.9/", http.StatusTemporaryRedirect)
				return true
			}
			return false
		})
		w.wants(w.leave(c), Seen, 3*s, 4300*ms)
	})
}

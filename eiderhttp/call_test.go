package eiderhttp

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/internal/fake"
)

func TestCallsTheServiceThatTheHostNames(t *testing.T) {
	w := newWorld(t, &Transport{})
	a := serve(t, "a", nil)
	w.Set("orders", fake.Up("orders", "a", a.addr()))
	w.want("200 a", "POST", "http://Orders:80/pay?x=1", "body")
	got := a.got()[0]
	if got.method != "POST" || got.host != "orders" || got.path != "/pay" || got.body != "body" {
		t.Errorf("the instance got %+v", got)
	}
	in := fake.Up("orders", "a", a.addr())
	if to, want := got.header.Get("Eider-To"), "a@"+in.Incarnation.String(); to != want {
		t.Errorf("Eider-To is %q, want %q", to, want)
	}
	if from := got.header.Get("Eider-Caller"); from != w.Handle.Caller() || !strings.HasPrefix(from, "test@") {
		t.Errorf("Eider-Caller is %q, want %q", from, w.Handle.Caller())
	}
}

func TestTheCallersRequestIsLeftAlone(t *testing.T) {
	w := newWorld(t, &Transport{})
	a := serve(t, "a", nil)
	w.Set("orders", fake.Up("orders", "a", a.addr()))
	req, _ := http.NewRequest("POST", "http://orders/", strings.NewReader("x"))
	url, header := *req.URL, req.Header.Clone()
	resp, err := w.tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if *req.URL != url || len(req.Header) != len(header) || req.Host != "orders" || req.GetBody == nil {
		t.Errorf("the request is now %+v", req)
	}
	if resp.Request != req {
		t.Error("the answer's Request isn't the caller's")
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	w := newWorld(t, &Transport{Tries: 1})
	w.Set("down", func() eider.Instance { in := fake.Up("down", "a", "127.0.0.1:1"); in.Status = eider.Down; return in }())
	w.Set("dead", fake.Up("dead", "a", fake.DeadPort(t)))
	for _, row := range []struct {
		url  string
		kind eider.Kind
		says []string
	}{
		{"http://10.0.0.1/", eider.Invalid, []string{"GET http://10.0.0.1/", "Unknown"}},
		{"http://orders:8080/", eider.Invalid, []string{"port", "Unknown"}},
		{"http://or_der$/", eider.Invalid, []string{"a-z"}},
		{"ftp://orders/", eider.Invalid, []string{"http or https"}},
		{"http://nobody/", eider.NoInstance, []string{"GET http://nobody/", "nobody is registered"}},
		{"http://down/x?secret=1", eider.NoInstance, []string{"GET http://down/x:", "DOWN"}},
		{"http://dead/", eider.Unavailable, []string{"tried dead/a 127.0.0.1:", "connection refused", "no tries are left"}},
	} {
		req, err := http.NewRequest("GET", row.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.tr.RoundTrip(req)
		e, ok := errors.AsType[*eider.Error](err)
		if !ok || e.Kind != row.kind {
			t.Errorf("%s: %v (kind %v), want kind %v", row.url, err, eider.KindOf(err), row.kind)
			continue
		}
		for _, says := range row.says {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %q doesn't say %q", row.url, err, says)
			}
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %q tells the query", row.url, err)
		}
	}
}

func TestUnknownHostsPassOnIfSo(t *testing.T) {
	other := serve(t, "other", nil)
	a := serve(t, "a", nil)
	w := newWorld(t, &Transport{Unknown: &http.Transport{DisableKeepAlives: true}})
	w.Set("orders", fake.Up("orders", "a", a.addr()))
	w.want("200 other", "GET", other.URL+"/x", "")
	w.want("200 a", "GET", "http://orders/", "")
	if got := other.got()[0]; got.header.Get("Eider-To") != "" || got.header.Get("Eider-Caller") != "" {
		t.Errorf("a host that is no service got %v", got.header)
	}
	w.tr.Services = func(host string) bool { return false }
	w.tr.Unknown = roundTripper(func(*http.Request) (*http.Response, error) { return nil, errors.New("passed on") })
	if _, err := w.fetch("GET", "http://orders/", ""); err == nil || !strings.Contains(err.Error(), "passed on") {
		t.Errorf("Services said no, and: %v", err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestZeroTransportSaysWhatItLacks(t *testing.T) {
	_, err := (&http.Client{Transport: &Transport{}}).Get("http://orders/")
	if eider.KindOf(err) != eider.Invalid || !strings.Contains(err.Error(), "registry.Open") {
		t.Errorf("got %v", err)
	}
}

func TestClosedTransportFails(t *testing.T) {
	w := newWorld(t, &Transport{})
	a := serve(t, "a", nil)
	w.Set("orders", fake.Up("orders", "a", a.addr()))
	w.want("200 a", "GET", "http://orders/", "")
	w.tr.Close()
	if _, err := w.fetch("GET", "http://orders/", ""); eider.KindOf(err) != eider.Closed {
		t.Errorf("got %v", err)
	}
}

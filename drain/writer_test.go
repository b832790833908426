package drain

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A handler can do with its writer whatever it could do without a drain.
func TestWriterKeepsItsMethods(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, bytes.Repeat([]byte("x"), 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	r := begin(t, func(w http.ResponseWriter, req *http.Request) {
		_, flushes := w.(http.Flusher)
		_, hijacks := w.(http.Hijacker)
		_, from := w.(io.ReaderFrom)
		_, pushes := w.(http.Pusher)
		_, strings := w.(io.StringWriter)
		ctl := http.NewResponseController(w)
		deadlines := ctl.SetReadDeadline(time.Time{}) == nil && ctl.SetWriteDeadline(time.Time{}) == nil && ctl.EnableFullDuplex() == nil
		w.Header().Set("Can", fmt.Sprint(flushes, hijacks, from, pushes, strings, deadlines))
		http.ServeFile(w, req, file)
	}, func(srv *http.Server, _ *Config) {
		srv.Protocols = new(http.Protocols)
		srv.Protocols.SetHTTP1(true)
		srv.Protocols.SetUnencryptedHTTP2(true)
	})
	for major, want := range map[int]string{1: "true true true false true true", 2: "true false false true true true"} {
		tr := &http.Transport{Protocols: new(http.Protocols)}
		tr.Protocols.SetHTTP1(major == 1)
		tr.Protocols.SetUnencryptedHTTP2(major == 2)
		resp, err := (&http.Client{Transport: tr}).Get("http://" + r.addr)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		tr.CloseIdleConnections()
		if got := resp.Header.Get("Can"); got != want || len(body) != 1<<20 || err != nil || resp.ProtoMajor != major {
			t.Errorf("HTTP/%d: flush, hijack, read from, push, string, controller are %s, want %s; %d bytes, %v", major, got, want, len(body), err)
		}
	}
	r.leave()
	r.barrier()
	r.end()
}

// A hijacked connection is the handler's: it can what the connection can, and goes on until its own end, within the
// budget of streams.
func TestHijackedConnectionGoesOn(t *testing.T) {
	r := begin(t, func(w http.ResponseWriter, _ *http.Request) {
		nc, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer nc.Close()
		if _, ok := nc.(interface{ CloseWrite() error }); !ok {
			t.Error("it can't half-close")
		}
		rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		rw.Flush()
		line, _ := rw.ReadString('\n')
		rw.WriteString(line)
		rw.Flush()
	}, nil)
	p := r.dial()
	p.send("/ws", "Connection: Upgrade", "Upgrade: echo")
	if resp := p.head(); resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v", resp)
	}
	r.leave()
	r.barrier()
	r.unlistened()
	io.WriteString(p, "hi-there\n")
	if line, err := p.r.ReadString('\n'); strings.TrimPrefix(line, "hi") != "hi-there\n" && line != "hihi-there\n" {
		t.Errorf("it echoes %q, %v", line, err)
	}
	if rep := r.end(); rep.Exit != ExitClean || rep.ForceClosed != 0 || rep.CutCount != 0 || rep.Took > 4*time.Second {
		t.Errorf("%+v", rep)
	}
}

// Informational answers aren't the answer: what is said about leaving is decided by the last one.
func TestEarlyHintsDoNotDecide(t *testing.T) {
	in, release := make(chan struct{}), make(chan struct{})
	r := begin(t, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		close(in)
		<-release
		hello(w, req)
	}, nil)
	p := r.dial()
	p.send("/")
	soon(t, in, "the hint")
	r.leave()
	close(release)
	hint, err := textproto.NewReader(p.r).ReadLine()
	if err != nil || !strings.Contains(hint, "103") {
		t.Fatalf("%q, %v", hint, err)
	}
	for line := "-"; line != ""; {
		if line, err = textproto.NewReader(p.r).ReadLine(); err != nil {
			t.Fatal(err)
		}
	}
	resp, _ := p.answer()
	told(t, resp)
	r.barrier()
	r.end()
}

// An answer that a handler never writes is written by net/http, and tells too.
func TestEmptyAnswerTells(t *testing.T) {
	r := begin(t, func(http.ResponseWriter, *http.Request) {}, nil)
	r.leave()
	p := r.dial()
	p.send("/")
	resp, _ := p.answer()
	told(t, resp)
	r.barrier()
	r.end()
}

// The server's handler, called by the user's own hands, is the user's handler.
func TestHandlerWithoutTheServer(t *testing.T) {
	srv := &http.Server{Handler: http.HandlerFunc(hello)}
	d := &drainer{srv: srv}
	d.takeOver()
	w := httptest.NewRecorder()
	srv.Handler.ServeHTTP(w, httptest.NewRequest("POST", "/", http.NoBody))
	if w.Code != http.StatusOK || w.Body.String() != "hello" {
		t.Errorf("%v", w)
	}
}

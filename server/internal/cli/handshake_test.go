package cli

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// A registry on a busy machine may take seconds for a handshake, and is there all the same; one that never shakes hands isn't.
func TestAHandshakeMayTakeAsLongAsAnAnswer(t *testing.T) {
	certs := filepath.Join(t.TempDir(), "certs")
	must(t, "certs", "init", certs)
	pair, err := tls.LoadX509KeyPair(filepath.Join(certs, "server.pem"), filepath.Join(certs, "server.key"))
	if err != nil {
		t.Fatal(err)
	}
	secured, now := trusting(t, filepath.Join(certs, "ca.pem")), time.Now()
	secured.Time = func() time.Time { return now } // a bubble's clock begins before the certificate
	for takes, answers := range map[time.Duration]bool{3 * time.Second: true, 9 * time.Second: true, 11 * time.Second: false} {
		synctest.Test(t, func(t *testing.T) {
			dial := func(context.Context, string, string) (net.Conn, error) {
				here, there := net.Pipe()
				go func() {
					defer there.Close()
					time.Sleep(takes)
					s := tls.Server(there, &tls.Config{Certificates: []tls.Certificate{pair}})
					if s.Handshake() == nil {
						_, _ = s.Read(make([]byte, 4096))
						_, _ = io.WriteString(s, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
					}
				}()
				return here, nil
			}
			resp, err := (&http.Client{Transport: transport(dial, secured.Clone())}).Get("https://localhost/")
			if err == nil {
				resp.Body.Close()
			}
			if (err == nil) != answers {
				t.Errorf("after a handshake of %s: %v", takes, err)
			}
			time.Sleep(time.Minute) // until all have ended
		})
	}
}

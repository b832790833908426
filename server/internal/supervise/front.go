package supervise

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"

	"github.com/eiderhq/eider/drain"
	"github.com/eiderhq/eider/server/internal/supervise/front"
)

// stand serves the front of a service until it has left. It sets no time limits: a connection that was opened ahead and is
// closed when its first request comes loses it.
func (l *life) stand(service Service, cfg drain.Config, p drain.Program) (drain.Report, error) {
	var err error
	if cfg.Address, err = service.frontAddress(); err != nil {
		return drain.Report{}, err
	}
	f := front.Handler(&url.URL{Scheme: "http", Host: service.Address}, l.s.logger(service.Name))
	defer f.Close()
	srv := &http.Server{Addr: service.Front, Handler: f, Protocols: new(http.Protocols)}
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetUnencryptedHTTP2(true)
	return drain.Before(l.leave, srv, cfg, p)
}

// frontAddress is what is advertised of a front: where it listens, and without a host, or with that of all interfaces,
// the local one of the registry connection.
func (s Service) frontAddress() (string, error) {
	host, port, err := net.SplitHostPort(s.Front)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return "", fmt.Errorf("front: %q: write [HOST]:PORT where it listens, as in :8000", s.Front)
	}
	if theirs, programs, err := net.SplitHostPort(s.Address); err == nil && programs == port && (theirs == host || theirs == "" || host == "") {
		return "", errors.New("front: it would listen where the program does; write another port")
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = ""
	}
	return net.JoinHostPort(host, port), nil
}

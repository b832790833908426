package check

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/eiderhq/eider/server/internal/harmless"
)

// forms are what a check may look like.
const forms = "http://:8080/healthz, https://:8443/healthz, tcp://:8080, grpc://:9090, grpc://:9090/my.Service or exec:/bin/probe --fast"

// Parse reads a check: http://[host]:port/path, https://, tcp://[host]:port, grpc://[host]:port[/service], or
// exec:PROGRAM ARG …, whose words are split at white space, by no shell. No host means this machine's loopback.
func Parse(text string) (Check, error) {
	kind, rest, ok := strings.Cut(text, ":")
	if !ok {
		return nil, fault(text, "it doesn't say how to ask; write "+forms)
	}
	if kind == "exec" {
		return parseExec(text, rest)
	}
	u, err := url.Parse(text)
	if err != nil {
		var parse *url.Error
		if errors.As(err, &parse) {
			err = parse.Err // the text is in front already
		}
		return nil, fault(text, harmless.Text(err.Error())+"; write "+forms)
	}
	switch u.Scheme {
	case "http", "https", "tcp", "grpc":
	default:
		return nil, fault(text, fmt.Sprintf("%.20q is no way to ask; write %s", kind, forms))
	}
	to, err := target(u)
	if err != nil {
		return nil, fault(text, err.Error())
	}
	switch path := strings.TrimPrefix(u.Path, "/"); {
	case u.Scheme == "tcp" && (path != "" || u.RawQuery != ""):
		return nil, fault(text, fmt.Sprintf("a TCP check only connects and asks for no path; write tcp://%s, or http://%s%s to ask for it", u.Host, u.Host, u.RequestURI()))
	case u.Scheme == "tcp":
		return connects{to}, nil
	case u.Scheme == "grpc" && (u.RawQuery != "" || strings.Contains(path, "/")):
		return nil, fault(text, "what follows the port is the service's name, as in grpc://:9090/my.Service")
	case u.Scheme == "grpc":
		return remote{to: to, service: path}, nil
	}
	return answers{to: to, url: u}, nil
}

// target is where a check goes.
func target(u *url.URL) (address, error) {
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	switch {
	case u.Opaque != "":
		return address{}, fmt.Errorf("write two slashes after %s:, as in %s://:8080", u.Scheme, u.Scheme)
	case u.User != nil:
		return address{}, errors.New("a check carries no user and no password; let the program answer its check to anybody")
	case u.Fragment != "":
		return address{}, errors.New("what follows # is never sent; take it away")
	case u.Port() == "":
		return address{}, fmt.Errorf("the port is missing, as in %s://:8080", u.Scheme)
	case err != nil || port == 0:
		return address{}, fmt.Errorf("the port %.10q is none; write 1 to 65535", u.Port())
	}
	return address{host: u.Hostname(), port: u.Port()}, nil
}

func parseExec(text, rest string) (Check, error) {
	words := strings.Fields(rest)
	if len(words) == 0 {
		return nil, fault(text, "the program is missing, as in exec:/bin/probe --fast")
	}
	if strings.ContainsAny(rest, `"'\`) {
		return nil, fault(text, "no shell reads it: words end at white space and nothing is quoted; put what needs quotes into a program of its own")
	}
	return command{words: words}, nil
}

func fault(text, what string) error { return fmt.Errorf("check %.80q: %s", text, what) }

// address is a host, "" for loopback, and a port.
type address struct{ host, port string }

func (a address) String() string { return net.JoinHostPort(a.host, a.port) }

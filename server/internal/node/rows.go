package node

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eiderhq/eider"
)

// How each kind of setting is read and written.

func address(name string, to *string, usual, about string) row {
	return row{name, "ip:port", about, func(text string) error {
		if name == "http" { // EIDER_HTTP also names the registry to ask, which may be a URL
			text = strings.TrimSuffix(strings.TrimPrefix(text, "http://"), "/")
		}
		if err := checkAddress(text, usual); err != nil {
			return err
		}
		*to = text
		return nil
	}, func() string { return *to }}
}

// checkBind allows loopback alone, which is what is bound where nobody is asked who he is.
func checkBind(text, usual string) error {
	if err := checkAddress(text, usual); err != nil {
		return err
	}
	return checkLoopback(text, "insecure-grpc")
}

// checkAddress holds an address to listen on to its form.
func checkAddress(text, usual string) error {
	if scheme, _, ok := strings.Cut(text, "://"); ok {
		return fmt.Errorf("%q has the scheme %s, and it is an address to listen on: write ip:port, as in %s", text, scheme, usual)
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return fmt.Errorf("%q must be ip:port, as in %s", text, usual)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q needs a port from 0 to 65535; 0 means any free one", text)
	}
	if host == "localhost" {
		return nil
	}
	if _, err := netip.ParseAddr(host); err != nil && host != "" {
		return fmt.Errorf("%q must name an IP or localhost, as in %s", text, usual)
	}
	return nil
}

// checkLoopback tells why an address of good form may not be served to everybody.
func checkLoopback(text, flag string) error {
	host, port, err := net.SplitHostPort(text)
	if ip, errIP := netip.ParseAddr(host); err != nil || host == "localhost" || errIP == nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("%q could be reached from other machines, where anybody could register and remove instances, or read what is said: "+
		"give --cert and --key (TLS; `eider certs init` makes some for trying) and --tokens (who is let in; `eider tokens add`), or bind to loopback, as in %s; "+
		"--%s serves it to everybody all the same", text, net.JoinHostPort("127.0.0.1", port), flag)
}

// optional makes a row one that may be left out.
func optional(r row, to *string) row {
	set := r.set
	r.set = func(text string) error {
		if text == "" {
			*to = ""
			return nil
		}
		return set(text)
	}
	return r
}

// file is a row for a file's name. That it can be read is seen when the node runs.
func file(name string, to *string, about string) row {
	return row{name, "file", about, func(text string) error {
		*to = text
		return nil
	}, func() string { return *to }}
}

// folder is a row for a folder's name.
func folder(name string, to *string, about string) row {
	r := file(name, to, about)
	r.kind = "folder"
	return r
}

// list is a row for words by commas.
func list(name string, to *string, kind, about string, check func(string) error) row {
	return row{name, kind, about, func(text string) error {
		var faults []error
		for _, one := range words(text) {
			faults = append(faults, check(one))
		}
		if err := errors.Join(faults...); err != nil {
			return err
		}
		*to = text
		return nil
	}, func() string { return *to }}
}

// words are what a list has.
func words(text string) (out []string) {
	for one := range strings.SplitSeq(text, ",") {
		if one = strings.TrimSpace(one); one != "" {
			out = append(out, one)
		}
	}
	return out
}

func checkHost(text string) error {
	if len(text) > 253 || strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c >= 0x7f || strings.ContainsRune(`/:@"\`, c) }) {
		return fmt.Errorf("%.40q is no host's name: write it without scheme and port, as in registry.example", text)
	}
	return nil
}

func checkNetwork(text string) error {
	if _, err := netip.ParsePrefix(text); err != nil {
		return fmt.Errorf("%.40q is no network: write one as in 10.0.0.0/8", text)
	}
	return nil
}

// networks are the ones to dial.
func (s *Settings) networks() (out []netip.Prefix) {
	for _, one := range words(s.DialNetworks) {
		if network, err := netip.ParsePrefix(one); err == nil {
			out = append(out, network.Masked())
		}
	}
	return out
}

func duration(name string, to *time.Duration, least, most time.Duration, about string) row {
	return row{name, "duration", about, func(text string) error {
		d, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("%q is no duration; write a number and a unit, as in 20s or 1m30s", text)
		}
		if d < least || d > most {
			return fmt.Errorf("%s is out of bounds; it may be %s to %s", text, least, most)
		}
		*to = d
		return nil
	}, func() string { return to.String() }}
}

const maxNumber = 10_000_000

func number(name string, to *int, about string) row {
	return row{name, "number", about, func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is no whole number", text)
		}
		if n < 1 || n > maxNumber {
			return fmt.Errorf("%s is out of bounds; it may be 1 to %d", text, maxNumber)
		}
		*to = n
		return nil
	}, func() string { return strconv.Itoa(*to) }}
}

func boolean(name string, to *bool, about string) row {
	return row{name, "bool", about, func(text string) error {
		switch text {
		case "true", "false":
			*to = text == "true"
			return nil
		}
		return fmt.Errorf("%q is neither true nor false", text)
	}, func() string { return strconv.FormatBool(*to) }}
}

func choice(name string, to *string, about string, words ...string) row {
	return row{name, strings.Join(words, "|"), about, func(text string) error {
		if !slices.Contains(words, text) {
			return fmt.Errorf("%q is none of %s", text, strings.Join(words, ", "))
		}
		*to = text
		return nil
	}, func() string { return *to }}
}

func word(name string, to *string, about string) row {
	return row{name, "name", about, func(text string) error {
		if text != "" && eider.CheckID(text) != nil {
			return fmt.Errorf("%.140q must have 1 to %d bytes of printable ASCII without space, '/' and '@'", text, eider.MaxName)
		}
		*to = text
		return nil
	}, func() string { return *to }}
}

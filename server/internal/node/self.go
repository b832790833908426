package node

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
)

// Answers asks the node whether it is alive, by /healthz of its own HTTP port, over a connection of its own: so a port that
// accepts nobody is found out as well as a registry that is stuck. nil means that it is. It is for a watchdog, once the
// node is ready; strangers can't make it fail by taking all connections, since this machine's own share is apart.
func (n *Node) Answers(ctx context.Context) error {
	scheme := "http"
	if n.cfg.Settings.Cert != "" {
		scheme = "https"
	}
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, reachable(n.Addrs().HTTP.String()))
		},
		// Whom this process asks is itself, at an address that it listens at: what a certificate proves isn't asked here.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13},
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://localhost/healthz", nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("/healthz answers %s", resp.Status)
	}
	return nil
}

// reachable is where this machine reaches what listens at an address: everywhere includes loopback.
func reachable(address string) string {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !at.Addr().IsUnspecified() {
		return address
	}
	loopback := netip.IPv6Loopback()
	if at.Addr().Is4() {
		loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return netip.AddrPortFrom(loopback, at.Port()).String()
}

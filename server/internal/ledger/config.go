package ledger

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/eiderhq/eider"
)

// withDefaults fills in what is zero.
func (c Config) withDefaults() Config {
	c.Lease = cmp.Or(c.Lease, 20*time.Second)
	c.Beat = cmp.Or(c.Beat, 2*time.Second)
	c.SuspectAfter = cmp.Or(c.SuspectAfter, min(2*c.Beat+c.Beat/4, 5*time.Second))
	c.Reattach = cmp.Or(c.Reattach, time.Second)
	c.Cap = cmp.Or(c.Cap, 8*time.Second)
	c.Unknown = cmp.Or(c.Unknown, 8*time.Second)
	c.Remember = cmp.Or(c.Remember, 60*time.Second)
	c.Retention = cmp.Or(c.Retention, 24*time.Hour)
	c.Gap = cmp.Or(c.Gap, time.Second)
	c.MaxInstances = cmp.Or(c.MaxInstances, 200_000)
	c.MaxServices = cmp.Or(c.MaxServices, 20_000)
	c.MaxCallers = cmp.Or(c.MaxCallers, 50_000)
	c.MaxHolds = cmp.Or(c.MaxHolds, 10_000)
	c.MaxTombstones = cmp.Or(c.MaxTombstones, 200_000)
	return c
}

// Bounds that need no setting.
const (
	maxLease      = time.Hour   // of one instance; longer asked for is this
	maxWait       = time.Minute // that retry-afters add to one lease or cap
	maxNumber     = 1 << 62     // of an incarnation, as carried: the next one must be higher
	maxFollowed   = 1024        // services of one caller
	maxNamed      = 512         // departures in one acknowledgement
	maxNeighbours = 256         // instances at one address that a new one looks at
	recentGone    = 256         // gone instances in a view
	keptEnded     = 100         // services listed of which only gone instances are left
	keptDrains    = 256         // finished drains
	retryFull     = 10 * time.Second
)

// lease returns the lease that an instance gets. Never shorter than the time after which silence makes a
// suspect: preservation counts the silent before the first of them lapses.
func (c *Config) lease(asked time.Duration) time.Duration {
	if asked <= 0 {
		return c.Lease
	}
	return min(max(asked, c.SuspectAfter), maxLease)
}

// dialable tells whether this node may dial an address that a peer has told: its own source address, or
// one in the listed networks. Names aren't dialled, since resolving one asks strangers where to dial.
//
// Addresses that mean something else to this machine than to the peer, or that answer with a machine's own secrets
// (169.254.169.254 at cloud providers), are dialled only if a listed network is of nothing else.
func (c *Config) dialable(address string, peer netip.Addr) bool {
	ap, err := netip.ParseAddrPort(address)
	if err != nil || ap.Port() == 0 {
		return false
	}
	host := ap.Addr().Unmap().WithZone("")
	if special(host) {
		return slices.ContainsFunc(c.Networks, func(n netip.Prefix) bool { return n.Contains(host) && n.Bits() > 0 && special(n.Addr()) })
	}
	if peer.IsValid() && peer.Unmap().WithZone("") == host {
		return true
	}
	return slices.ContainsFunc(c.Networks, func(n netip.Prefix) bool { return n.Contains(host) })
}

// special tells whether an address is none of a machine in a network: link-local, multicast or unspecified.
func special(host netip.Addr) bool {
	return host.IsLinkLocalUnicast() || host.IsMulticast() || host.IsUnspecified() || !host.IsValid() || host == netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// errorf makes this room's errors; every one says what to do next.
func errorf(kind eider.Kind, op string, key eider.Key, format string, args ...any) *eider.Error {
	return eider.Errorf(kind, op+" "+key.String(), format, args...)
}

package supervise

import (
	"os"
	"slices"
	"syscall"
)

// The signals of Linux that no C library keeps for itself.
const firstRealTime, lastRealTime = syscall.Signal(35), syscall.Signal(64)

func passed() []os.Signal {
	all := append(slices.Clone(forwarded), syscall.SIGPWR)
	for sig := firstRealTime; sig <= lastRealTime; sig++ {
		all = append(all, sig)
	}
	return all
}

//go:build unix

package roster

import (
	"io/fs"
	"syscall"
)

// openFlags: a link that somebody has put there isn't followed, a pipe isn't waited for.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// ownerOf returns whose a file is.
func ownerOf(info fs.FileInfo) (uid int, known bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(stat.Uid), true
}

package supervise

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// shells don't pass SIGTERM on to what they wait for.
var shells = map[string]bool{"sh": true, "bash": true, "dash": true, "ash": true, "zsh": true, "ksh": true, "mksh": true, "busybox": true}

// swallowed warns of a parent that will keep the platform's SIGTERM to itself (D11). Without /proc it can't be told.
func swallowed() string {
	parent := os.Getppid()
	name, err := os.ReadFile("/proc/" + strconv.Itoa(parent) + "/comm")
	if err != nil {
		return ""
	}
	theirs, err := syscall.Getpgid(parent)
	return ofShell(string(bytes.TrimSpace(name)), parent, err == nil && theirs == syscall.Getpgrp())
}

// ofShell tells a script from a person's shell, which puts each job into a process group of its own, and whose person
// signals it by Ctrl-C.
func ofShell(name string, pid int, together bool) string {
	if !shells[name] || !together {
		return ""
	}
	return fmt.Sprintf("the parent, %s (process %d), is a shell that doesn't pass SIGTERM on: whoever stops it stops this process without a leave, or not at all; "+
		"start this process with exec, as in sh -c \"exec eider run … -- PROGRAM\", or without a shell", name, pid)
}

//go:build linux && race

package faults

// The race detector makes every goroutine cost several times as much: the herd is smaller, its rules are the same.
const herdSize, raced = 800, true

//go:build linux && !race

package faults

const herdSize, raced = 10_000, false

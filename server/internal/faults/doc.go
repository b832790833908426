// Package faults holds tests of what goes wrong: real processes that are killed, stopped, duplicated and fed with
// garbage, and what the others then see. The whole while nothing goes wrong is package e2e's.
package faults

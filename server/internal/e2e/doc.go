// Package e2e holds tests of the whole: a real node, real servers that drain, real callers over real sockets, in
// one process.
package e2e

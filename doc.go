// Package eider holds the words of the house: what a service, an instance, a status, a view and a
// drain are, on every wire, page and line of code.
//
// It imports the standard library alone and does nothing: no I/O, no goroutine, no clock. The rooms
// that act on these words are [github.com/eiderhq/eider/registry] (the handle),
// [github.com/eiderhq/eider/roster] (who can I call), [github.com/eiderhq/eider/drain] (leave without
// losing a request) and [github.com/eiderhq/eider/eiderhttp] (call, and let go in time).
package eider

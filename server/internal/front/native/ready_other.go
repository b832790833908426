//go:build !unix

package native

// read is never called: without ReadOnReady the transport reads into a buffer of its own.
func (c *counted) read(uintptr) bool { return true }

//go:build !linux

package drain

// waiting isn't looked at here; see Linux'.
func (c *conn) waiting() bool { return false }

package offline

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLintFitsItsTerminal: eider-lint sets its sentences in as many columns as the terminal has, which no pipe has.
func TestLintFitsItsTerminal(t *testing.T) {
	near, far := terminalOf(t, 60)
	code := LintMain("", []string{s8 + "none.yaml"}, strings.NewReader(""), far, io.Discard, func(string) string { return "dumb" })
	if code != lintFound {
		t.Errorf("it ended with %d", code)
	}
	far.Close()
	text := make([]byte, 64<<10)
	n := 0
	for { // what the far end wrote stays to be read, and then it fails: nobody has the far end open
		more, err := near.Read(text[n:])
		if n += more; err != nil {
			break
		}
	}
	lines := 0
	for line := range strings.Lines(string(text[:n])) {
		line = strings.TrimRight(line, "\r\n")
		if bare := strings.TrimPrefix(strings.TrimSpace(line), "write: "); len(line) > 60 && !strings.HasPrefix(bare, "lifecycle: ") && !strings.HasPrefix(line, "../") {
			t.Errorf("%d columns: %s", len(line), line)
		}
		lines++
	}
	if lines < 6 {
		t.Errorf("it wrote %q", text[:n])
	}
}

// terminalOf opens both ends of a terminal of so many columns.
func terminalOf(t *testing.T, width uint16) (near, far *os.File) {
	t.Helper()
	near, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { near.Close() })
	fd := int(near.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: width})
	}
	if err != nil {
		t.Skip(err)
	}
	if far, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { far.Close() })
	return near, far
}

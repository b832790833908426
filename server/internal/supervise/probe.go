package supervise

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/eiderhq/eider/server/internal/harmless"
)

// mostSaid is how much of what a check's program says is told.
const mostSaid = 256

// probe runs the program of an exec check, which the reaper must know of. What it says is told if it fails.
func (s *supervisor) probe(ctx context.Context, words []string) error {
	path, err := executable(words[0], os.Getenv("PATH"))
	if err != nil {
		return err
	}
	nothing, hears, err := os.Pipe() // an image may have no /dev/null
	if err != nil {
		return err
	}
	hears.Close()
	defer nothing.Close()
	from, says, err := os.Pipe()
	if err != nil {
		return err
	}
	defer from.Close()
	c, err := s.reaper.start(path, words, os.Environ(), [3]*os.File{nothing, says, says}, bound())
	says.Close()
	if err != nil {
		return &os.PathError{Op: "exec", Path: path, Err: err}
	}
	text := make(chan string, 1)
	go func() {
		first, _ := io.ReadAll(io.LimitReader(from, mostSaid))
		text <- string(first)
		_, _ = io.Copy(io.Discard, from) // so that it doesn't wait for a reader
	}()
	select {
	case <-c.ended:
	case <-ctx.Done():
		s.reaper.signal(c, syscall.SIGKILL, true)
		<-c.ended
	}
	_ = syscall.Kill(-c.pid, syscall.SIGKILL) // what it has started doesn't outlive it
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if code(c.how) == 0 {
		return nil
	}
	said := ""
	select {
	case said = <-text:
	case <-ctx.Done(): // somebody else holds its output open
	}
	return fmt.Errorf("%s ended with %d: %s", words[0], code(c.how), harmless.Text(strings.TrimSpace(said)))
}

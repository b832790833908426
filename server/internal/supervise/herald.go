package supervise

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/eiderhq/eider/server/internal/harmless"
	"github.com/eiderhq/eider/server/internal/notify"
)

const (
	leavingFile  = "EIDER_LEAVING_FILE" // names the file to the program
	heraldWithin = 2 * time.Second      // the program's answer to LeaveURL
)

// prepare takes a file of an earlier run away: the program would think that it leaves.
func (s *supervisor) prepare() {
	if s.LeaveFile == "" {
		return
	}
	if err := os.Remove(s.LeaveFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("the file that tells the program of its leave can't be taken away: it may think that it leaves already", "err", err)
	}
}

// environment is the program's: this process' own, and where it is told of its leave.
func (s *supervisor) environment() []string {
	env := notify.Without(os.Environ()) // its words to systemd would be taken for this process'
	if s.LeaveFile != "" {
		env = set(env, leavingFile, s.LeaveFile)
	}
	if s.Control != "" {
		env = set(env, "EIDER_CONTROL", s.Control)
	}
	return env
}

// set takes an earlier value out: of two, C libraries find the first.
func set(env []string, name, value string) []string {
	env = slices.DeleteFunc(env, func(one string) bool { return strings.HasPrefix(one, name+"=") })
	return append(env, name+"="+value)
}

// herald tells the program of the leave, once, by the ways that it wants to know it. What comes of that changes nothing.
func (s *supervisor) herald(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-s.leave.Done():
	}
	if s.LeaveFile != "" {
		if err := os.WriteFile(s.LeaveFile, []byte("leaving\n"), 0o600); err != nil {
			s.log.Warn("the program isn't told of its leave: the file can't be written; name one in a folder that can", "err", err)
		}
	}
	if s.LeaveURL == "" {
		return
	}
	if err := post(ctx, s.LeaveURL); err != nil {
		s.log.Warn("the program isn't told of its leave, or didn't take it; it leaves all the same", "url", s.LeaveURL, "err", err)
	}
}

// post sends one POST with nothing in it, and follows nowhere.
func post(ctx context.Context, to string) error {
	ctx, cancel := context.WithTimeout(ctx, heraldWithin)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to, http.NoBody)
	if err != nil {
		return err
	}
	t := &http.Transport{DisableKeepAlives: true}
	answer, err := t.RoundTrip(request)
	if err != nil {
		return err
	}
	answer.Body.Close()
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return fmt.Errorf("it answered %s", harmless.Text(answer.Status))
	}
	return nil
}

// checkURL tells whether a POST can be sent to it.
func checkURL(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("leave URL %.100q: it is no URL to POST to; write it as in http://127.0.0.1:8080/leaving", text)
	}
	return nil
}

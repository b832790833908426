package launch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/internal/control"
	"github.com/eiderhq/eider/server/internal/harmless"
)

// The exit codes of a leave over the socket, beside 0 and that of usage; those of `eider` itself mean the same.
const (
	exitUnwell = 1 // the leave, or its pause, didn't go as it should
	exitNobody = 3 // no process listens there
	exitDenied = 6 // it is another user's
)

// longestHook is how long an answer is waited for unless it is set: Kubernetes' default grace.
const longestHook = 30 * time.Second

// socketLeave is one `leave` over the socket, as its flags say.
type socketLeave struct {
	control string
	wait    bool
	timeout time.Duration
	own     *pflag.FlagSet // those flags that it alone has
}

// flags adds those of the socket.
func (s *socketLeave) flags(flags *pflag.FlagSet) {
	s.own = pflag.NewFlagSet("socket", pflag.ContinueOnError)
	s.own.StringVar(&s.control, "control", "", "`NAME` of the abstract socket on which the program listens (default $EIDER_CONTROL)")
	s.own.BoolVar(&s.wait, "wait", false, "wait until the pause is over, so that SIGTERM may come")
	s.own.DurationVar(&s.timeout, "timeout", 0, "`TIME` that an answer is waited for (default $EIDER_GRACE, else 30s)")
	flags.AddFlagSet(s.own)
}

// run has the process leave.
func (s *socketLeave) run(cmd *cobra.Command, asJSON bool) error {
	name := cmp.Or(s.control, os.Getenv("EIDER_CONTROL"))
	if name == "" {
		return &eider.Error{Kind: eider.Invalid, Err: errors.New("which process? Set EIDER_CONTROL, for the program and for this hook, to a name such as eider-orders, or say --control")}
	}
	patience, err := s.patience()
	if err != nil {
		return &eider.Error{Kind: eider.Invalid, Err: err}
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), patience)
	defer cancel()
	answer, err := control.Leave(ctx, name, s.wait)
	if err != nil {
		line, code := unheard(err, name, cmd.Context().Err() != nil, patience)
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", cmd.Root().Name(), harmless.Text(line))
		return &Ended{code}
	}
	line, code := heard(answer, s.wait)
	if asJSON {
		text, err := json.Marshal(answer)
		if err != nil {
			return err
		}
		line = string(text)
	}
	if _, err := fmt.Fprintln(cmd.OutOrStdout(), harmless.Text(line)); err != nil {
		return fmt.Errorf("the answer can't be written: %w", err)
	}
	if code != 0 {
		return &Ended{code}
	}
	return nil
}

// patience is how long the answer is waited for.
func (s *socketLeave) patience() (time.Duration, error) {
	if s.timeout < 0 {
		return 0, fmt.Errorf("--timeout %s is no time above 0", s.timeout)
	}
	if s.timeout > 0 {
		return s.timeout, nil
	}
	text := os.Getenv("EIDER_GRACE")
	if text == "" {
		return longestHook, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("EIDER_GRACE: %.40q is no time above 0; write it as in 45s", text)
	}
	return d, nil
}

// unheard is the line and the code of a leave that nobody answered. Kubernetes shows it in an event, with much before
// it: it is short.
func unheard(err error, name string, stopped bool, patience time.Duration) (string, int) {
	switch {
	case errors.Is(err, control.ErrNobody):
		return fmt.Sprintf("nobody listens at @%s in this pod: has the program ended, or isn't its --control, or Config.Control, this name?", strings.TrimPrefix(name, "@")), exitNobody
	case errors.Is(err, control.ErrDenied):
		return err.Error(), exitDenied
	case stopped:
		return "stopped waiting; the program goes on leaving", exitUnwell
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("no answer within %s: the program hangs, or its grace is longer than --timeout", patience), exitUnwell
	}
	return err.Error(), exitUnwell
}

// heard is the line and the code of an answer.
func heard(a control.Answer, wait bool) (string, int) {
	who := cmp.Or(strings.Join(a.Services, ", "), "the program")
	pause := a.Pause.Round(time.Millisecond)
	switch {
	case a.State == control.Left && a.Open > 0:
		return fmt.Sprintf("%s: the pause of %s (ended by: %s) was too short for %d of %d callers: its log names them; a longer terminationGracePeriodSeconds gives them time",
			who, pause, a.EndedBy, a.Open, a.Waited), exitUnwell
	case a.State == control.Left && a.Waited == 0:
		return fmt.Sprintf("%s: left after %s, nobody had to be waited for (%s)", who, pause, cmp.Or(a.EndedBy, "it wasn't running")), 0
	case a.State == control.Left:
		return fmt.Sprintf("%s: left after %s, nobody of %d callers is waited for any more (%s)", who, pause, a.Waited, a.EndedBy), 0
	case wait:
		return who + ": it ended before its pause did: its log says why", exitUnwell
	}
	return who + ": leaving", 0
}

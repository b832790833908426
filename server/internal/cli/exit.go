package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/harmless"
	"github.com/eiderhq/eider/server/internal/launch"
	"github.com/eiderhq/eider/server/internal/offline"
)

// Exit codes. They are part of the interface: docs/cli.md lists them, scripts rely on them.
const (
	exitOK          = 0
	exitFailure     = 1 // it was tried and failed
	exitUsage       = 2 // it can't be tried: the command line or the settings are wrong
	exitUnreachable = 3 // no registry answers
	exitNotFound    = 4 // the registry answers that there is no such thing
	exitLater       = 5 // the registry answers that it can't answer now: a limit, or it isn't ready
	exitDenied      = 6 // the registry answers that this isn't allowed
)

// exitCodes documents them.
var exitCodes = []struct {
	code    int
	meaning string
}{
	{exitOK, "done; also when Ctrl-C ends a command that follows or serves"},
	{exitFailure, "it was tried and failed"},
	{exitUsage, "the command line or the settings are wrong"},
	{exitUnreachable, "no registry answers"},
	{exitNotFound, "the registry answers that there is no such service or instance"},
	{exitLater, "the registry answers that it can't serve this now: a limit is reached, or it isn't ready"},
	{exitDenied, "the registry answers that this isn't allowed: no token or certificate was shown, or one without the role"},
}

// exit is an error with the code that it ends the process with.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string { return e.err.Error() }
func (e *exit) Unwrap() error { return e.err }

func usage(format string, args ...any) error { return usageError(fmt.Errorf(format, args...)) }

func usageError(err error) error { return &exit{exitUsage, err} }

func unreachable(err error) bool {
	e, ok := errors.AsType[*exit](err)
	return ok && e.code == exitUnreachable
}

// codeOf is the one table from a kind of error to an exit code.
var codeOf = map[eider.Kind]int{
	eider.Internal:    exitFailure,
	eider.Invalid:     exitUsage,
	eider.NotFound:    exitNotFound,
	eider.Conflict:    exitFailure,
	eider.Stale:       exitFailure,
	eider.Limited:     exitLater,
	eider.Unavailable: exitLater,
	eider.NoInstance:  exitLater,
	eider.Closed:      exitLater,
	eider.Denied:      exitDenied,
}

// explain tells the person what went wrong and returns the exit code. An error that is not one of ours
// comes from the parser of the command line.
func (a *app) explain(cmd *cobra.Command, err error) int {
	if v, ok := errors.AsType[*offline.Verdict](err); ok {
		return v.Code // the command has said why
	}
	if e, ok := errors.AsType[*launch.Ended](err); ok {
		return e.Code // likewise
	}
	code := exitUsage
	if m, ok := errors.AsType[*offline.Misuse](err); ok {
		err = m
	} else if e, ok := errors.AsType[*exit](err); ok {
		code = e.code
	} else if e, ok := errors.AsType[*eider.Error](err); ok {
		code = codeOf[e.Kind]
	}
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	for _, line := range lines {
		if line = strings.TrimRight(line, " \t"); line != "" {
			fmt.Fprintf(a.Err, "eider: %s\n", harmless.Text(line))
		}
	}
	if code == exitUsage {
		fmt.Fprintf(a.Err, "eider: `%s --help` shows how it is used\n", cmd.CommandPath())
	}
	return code
}

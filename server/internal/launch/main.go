package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/harmless"
)

// exitUsage is the code of a command line that is wrong.
const exitUsage = 2

// Main is the small binary: `eider-run [flags] -- PROGRAM [ARGUMENT…]`. It returns the exit code.
func Main(version string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) // before anything that takes time
	defer stop()
	return small(ctx, version, os.Args[1:], os.Stdout, os.Stderr)
}

func small(ctx context.Context, version string, args []string, out, errOut io.Writer) int {
	root := Run("eider-run")
	root.Use = "eider-run [flags] -- PROGRAM [ARGUMENT…]"
	root.Version = version
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(Leave("eider-run leave", nil))
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*Ended](err); ok {
		return e.Code
	}
	code := exitUsage
	if e, ok := errors.AsType[*eider.Error](err); ok && e.Kind != eider.Invalid {
		code = 1
	}
	for line := range strings.SplitSeq(strings.TrimSpace(err.Error()), "\n") {
		fmt.Fprintf(errOut, "%s: %s\n", root.Name(), harmless.Text(line))
	}
	if code == exitUsage {
		fmt.Fprintf(errOut, "%s: `%s --help` shows how it is used\n", root.Name(), cmd.CommandPath())
	}
	return code
}

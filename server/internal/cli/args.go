package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eiderhq/eider/internal/near"
)

// misspelt turns cobra's error for a word that is no command into ours: its own is of several lines, one of them
// indented by a tab. Any other error it returns as it is.
func misspelt(root *cobra.Command, args []string, err error) error {
	_, _, unknown := root.Find(args)
	if unknown == nil || unknown.Error() != err.Error() {
		return err
	}
	word, _ := strconv.QuotedPrefix(strings.TrimPrefix(unknown.Error(), "unknown command "))
	word, _ = strconv.Unquote(word)
	meant := root.SuggestionsFor(word)
	if len(meant) == 0 {
		return usage("unknown command %q", word)
	}
	return usage("unknown command %q; did you mean %s?", word, strings.Join(meant, " or "))
}

// noArguments is the rule of a command that takes none.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usage("`%s` takes no argument; %q is one", cmd.CommandPath(), args[0])
}

// flagFault says what is wrong with a flag's value in words of this house.
func flagFault(cmd *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		return usage("%w%s", err, meantFlag(cmd, unknown.GetSpecifiedName()))
	}
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return usageError(err)
	}
	cause := invalid.Unwrap()
	if _, ok := errors.AsType[*strconv.NumError](cause); ok {
		cause = errors.New("must be a whole number")
	}
	if invalid.GetFlag().Value.Type() == "bool" {
		cause = errors.New("must be true or false")
	}
	return usage("--%s %q %w", invalid.GetFlag().Name, invalid.GetValue(), cause)
}

// meantFlag asks whether another flag of the command was meant.
func meantFlag(cmd *cobra.Command, name string) string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if meant := near.Name(name, names, 2); meant != "" && len(name) > 2 {
		return "; did you mean --" + meant + "?"
	}
	return ""
}

// whole is a flag's whole number from 0 to most.
type whole struct {
	n, most int
}

// Set reads it.
func (w *whole) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > w.most {
		return fmt.Errorf("must be a whole number from 0 to %d", w.most)
	}
	w.n = n
	return nil
}

// String writes it.
func (w *whole) String() string { return strconv.Itoa(w.n) }

// Type names it.
func (w *whole) Type() string { return "int" }

package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eiderhq/eider/server/internal/access"
)

// added is what `eider tokens add --json` prints. The token is shown here and nowhere else.
type added struct {
	Name  string `json:"name"`
	Roles string `json:"roles"`
	Token string `json:"token,omitempty"`
	File  string `json:"file,omitempty"` // where the token was written to
}

func (a *app) tokensCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tokens",
		Short: "Say who is let in, and what each may do",
		Long: `Say who is let in: a file with a line for each token (its hash alone) and each client
certificate. A registry that was started with --tokens FILE reads it again within a
second of a change, and ends the streams of those who were taken out.

Roles: read (services, instances, callers, drains, events, metrics), register:SERVICE
(register, leave and follow; register:team-* for all that begin so, register:* for any),
operate (hold, release; reads too).`,
		Example: `  eider tokens add orders --tokens eider.tokens --role register:orders --out orders.token
  eider tokens list --tokens eider.tokens
  eider tokens revoke orders --tokens eider.tokens`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("`eider tokens` has no command %q; add, list and revoke are", args[0])
			}
			return cmd.Help()
		},
	}
	for _, sub := range []*cobra.Command{a.tokensAddCommand(), a.tokensListCommand(), a.tokensRevokeCommand()} {
		sub.Flags().String("tokens", "", "`FILE` of who is let in (default $EIDER_TOKENS)")
		cmd.AddCommand(sub)
	}
	return cmd
}

// tokensFile returns the file that a command is about.
func (a *app) tokensFile(cmd *cobra.Command) (string, error) {
	path, _ := cmd.Flags().GetString("tokens")
	if path = cmp.Or(path, a.Getenv("EIDER_TOKENS")); path == "" {
		return "", usage("which file? Name it with --tokens or EIDER_TOKENS; `eider server --tokens` reads the same")
	}
	return path, nil
}

// readTokens reads the file; one that isn't there is empty.
func readTokens(path string) ([]byte, *access.Book, error) {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, &exit{exitFailure, err}
	}
	book, err := access.Parse(path, data)
	if err != nil {
		return nil, nil, &exit{exitFailure, err}
	}
	return data, book, nil
}

// adding is what one line is made from.
type adding struct {
	roles  []string
	life   time.Duration
	out    string
	cert   bool
	rotate bool
}

func (a *app) tokensAddCommand() *cobra.Command {
	var add adding
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Let somebody in: draw a token, or name a client certificate",
		Long: `Draw a token and write its hash and roles into the file, which is made if need be. The
token is shown once, or written to the file that --out names; nobody can read it from the
file of tokens. With --cert the line is for client certificates of that name instead (their
first URI, else their common name, else their first DNS name).`,
		Example: `  eider tokens add ci --tokens eider.tokens --role read --role operate --expires-in 2160h
  eider tokens add orders --tokens eider.tokens --role register:orders --out orders.token
  eider tokens add web.prod --tokens eider.tokens --role register:web --cert`,
		Args: oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := a.tokensFile(cmd)
			if err != nil {
				return err
			}
			return a.addToken(path, args[0], add)
		},
	}
	cmd.Flags().StringArrayVar(&add.roles, "role", nil, "`ROLE`: read, register:SERVICE or operate; may be given again")
	cmd.Flags().DurationVar(&add.life, "expires-in", 0, "`DURATION` that it is good for, as in 2160h; 0 is for ever")
	cmd.Flags().StringVar(&add.out, "out", "", "`FILE` to write the token to, for its owner alone, instead of showing it")
	cmd.Flags().BoolVar(&add.cert, "cert", false, "let in client certificates of that name; no token is drawn")
	cmd.Flags().BoolVar(&add.rotate, "rotate", false, "draw another token beside the one of that name, with its roles; `eider tokens revoke --old` then ends the older")
	return cmd
}

func oneName(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage("`%s` takes one name; there are %d", cmd.CommandPath(), len(args))
	}
	return nil
}

func (a *app) addToken(path, name string, add adding) error {
	data, book, err := readTokens(path)
	if err != nil {
		return err
	}
	id, err := newIdentity(book, name, add)
	if err != nil {
		return err
	}
	token := ""
	if id.Kind == access.Token {
		token = access.NewToken()
	}
	now := time.Now()
	if add.life > 0 {
		id.Expires = now.Add(add.life)
	}
	data = access.AppendLine(data, id, token, now)
	if _, err := access.Parse(path, data); err != nil {
		return &exit{exitFailure, err}
	}
	shown := added{Name: name, Roles: id.Roles.String(), Token: token}
	if add.out != "" && token != "" {
		if err := access.WriteNew(add.out, []byte(token+"\n")); err != nil {
			return &exit{exitFailure, err}
		}
		shown.Token, shown.File = "", add.out
	}
	if err := access.Replace(path, data); err != nil {
		return &exit{exitFailure, err}
	}
	return a.tellAdded(path, id.Kind, shown)
}

// newIdentity is the line's, without what is drawn for it.
func newIdentity(book *access.Book, name string, add adding) (id access.Identity, err error) {
	if err = access.CheckName(name); err != nil {
		return id, usageError(err)
	}
	id = access.Identity{Name: name, Kind: access.Token}
	if add.cert {
		id.Kind = access.Certificate
	}
	var known *access.Line
	for _, l := range book.Lines() {
		if l.Kind == id.Kind && l.Name == name {
			known = &l
		}
	}
	switch {
	case add.rotate && (known == nil || add.cert):
		return id, usage("there is no token %q to draw another beside", name)
	case known != nil && !add.rotate:
		return id, usage("%s %q is there already: --rotate draws another token beside it, `eider tokens revoke` takes it out", id.Kind, name)
	case add.rotate && len(add.roles) == 0:
		add.roles = []string{known.Roles}
	case len(add.roles) == 0:
		return id, usage("what may %s do? Give --role read, --role register:SERVICE or --role operate", name)
	}
	if id.Roles, err = access.ParseRoles(strings.Join(add.roles, ",")); err != nil {
		return id, usage("--role: %w", err)
	}
	return id, nil
}

func (a *app) tellAdded(path string, kind access.Kind, shown added) error {
	if a.output == "json" {
		return a.writeJSON(shown, true)
	}
	switch {
	case kind == access.Certificate:
		return a.print(fmt.Sprintf("Client certificates called %s are let in (%s).\n", shown.Name, shown.Roles))
	case shown.File != "":
		return a.print(fmt.Sprintf("The token of %s (%s) is in %s; its hash is in %s.\n", shown.Name, shown.Roles, shown.File, path))
	}
	return a.print(fmt.Sprintf("%s\n\nThis is the token of %s (%s). It is shown once: write it to a file that only its process may\nread, and name that by EIDER_TOKEN_FILE.\n", shown.Token, shown.Name, shown.Roles))
}

func (a *app) tokensListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List who is let in, and what each may do",
		Long:  "List who is let in, and what each may do. No token can be read from it; HASH tells two of one name apart.",
		Example: `  eider tokens list --tokens eider.tokens
  eider tokens list --tokens eider.tokens --json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := a.tokensFile(cmd)
			if err != nil {
				return err
			}
			_, book, err := readTokens(path)
			if err != nil {
				return err
			}
			lines := book.Lines()
			return a.answer(struct {
				Lines []access.Line `json:"identities"`
			}{lines}, func(t *table) {
				t.row("KIND", "NAME", "ROLES", "CREATED", "EXPIRES", "HASH")
				for _, l := range lines {
					expires := "never"
					if !l.Expires.IsZero() {
						expires = l.Expires.UTC().Format(time.RFC3339)
					}
					t.row(string(l.Kind), l.Name, l.Roles, l.Created.UTC().Format(time.RFC3339), expires, l.Hash)
				}
			})
		},
	}
}

func (a *app) tokensRevokeCommand() *cobra.Command {
	var old, cert bool
	cmd := &cobra.Command{
		Use:   "revoke NAME",
		Short: "Let somebody in no longer",
		Long: `Take every line of a name out of the file. Registries that read it end that name's
streams within a second.`,
		Example: `  eider tokens revoke orders --tokens eider.tokens
  eider tokens revoke orders --tokens eider.tokens --old`,
		Args: oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := a.tokensFile(cmd)
			if err != nil {
				return err
			}
			data, _, err := readTokens(path)
			if err != nil {
				return err
			}
			kind := access.Token
			if cert {
				kind = access.Certificate
			}
			left, n := access.Remove(data, kind, args[0], old)
			if n == 0 {
				return &exit{exitNotFound, fmt.Errorf("%s has no %s %q to take out; `eider tokens list` shows what it has", path, kind, args[0])}
			}
			if err := access.Replace(path, left); err != nil {
				return &exit{exitFailure, err}
			}
			return a.answer(struct {
				Revoked int `json:"revoked"`
			}{n}, func(t *table) { t.say(fmt.Sprintf("%s %s is let in no longer (%d taken out).", kind, args[0], n)) })
		},
	}
	cmd.Flags().BoolVar(&old, "old", false, "keep the newest token of the name, and end the older ones")
	cmd.Flags().BoolVar(&cert, "cert", false, "a client certificate's line, not a token's")
	return cmd
}

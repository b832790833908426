package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build says what is running.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // the working tree had changes
	Time     string `json:"time,omitempty"`     // of the commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// built returns what the linker was told, else what Go recorded.
func built(version string) build {
	b := build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "(devel)" {
			b.Version = cmp.Or(b.Version, info.Main.Version)
		}
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			case "vcs.time":
				b.Time = s.Value
			}
		}
	}
	b.Version = cmp.Or(b.Version, "development")
	return b
}

func (b build) String() string {
	text := fmt.Sprintf("eider %s (%s, %s", b.Version, b.Go, b.Platform)
	if b.Commit != "" {
		text += ", commit " + b.Commit[:min(12, len(b.Commit))]
	}
	if b.Modified {
		text += " with changes"
	}
	return text + ")"
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Tell which version this is",
		Long:  "Tell which version this is, with what built it. `eider --version` and `eider -v` do the same.",
		Example: `  eider version
  eider version --json | jq -r .version`,
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			return a.tellVersion()
		},
	}
}

func (a *app) tellVersion() error {
	b := built(a.Version)
	return a.answer(b, func(t *table) { t.say(b.String()) })
}

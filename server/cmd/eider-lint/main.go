// Command eider-lint is `eider lint` alone, small enough for an image of CI.
package main

import (
	"os"

	"github.com/eiderhq/eider/server/internal/offline"
)

// version is set by the linker: -ldflags "-X main.version=v1.2.3".
var version string

func main() {
	os.Exit(offline.LintMain(version, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
}

// Command eider is the registry server and everything that one asks of it.
package main

import (
	"os"

	"github.com/eiderhq/eider/server/internal/cli"
)

// version is set by the linker: -ldflags "-X main.version=v1.2.3".
var version string

func main() { os.Exit(cli.Main(version)) }

// Command eider-run is `eider run` alone, small enough for an image.
package main

import (
	"os"

	"github.com/eiderhq/eider/server/internal/launch"
)

// version is set by the linker: -ldflags "-X main.version=v1.2.3".
var version string

func main() { os.Exit(launch.Main(version)) }

package console

import (
	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/internal/near"
)

// maxNear bounds the names that a misspelt one is compared with: a hint isn't worth more.
const maxNear = 1000

// nearest returns the known name that a misspelt one was probably meant to be, "" if none is close.
func nearest(name string, known []eider.Summary) string {
	var names []string
	for _, s := range known[:min(len(known), maxNear)] {
		names = append(names, s.Service)
	}
	return near.Name(name, names, min(2, len(name)/2))
}

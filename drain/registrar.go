package drain

import (
	"context"
	"iter"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/registry"
)

// What a drain needs of a registry, narrow enough that a test can script it. None of it blocks but
// Left and Watch's iterator, which end with their context.
type (
	registrar interface {
		register(registry.Registration) (listing, error)
	}
	listing interface {
		State() registry.State
		Watch(context.Context) iter.Seq[registry.State]
		SetStatus(eider.Status) error
		Leave() leaving
		Left(context.Context) error
	}
	leaving interface {
		Barrier() <-chan struct{}
		Drain() (drain eider.Drain, heard bool)
		Changed() <-chan struct{}
		Bound() time.Duration
	}
)

// handle is the real registrar.
type handle struct{ *registry.Registry }

func (h handle) register(r registry.Registration) (listing, error) {
	l, err := h.Register(r)
	if err != nil {
		return nil, err
	}
	return handleListing{l}, nil
}

type handleListing struct{ *registry.Listing }

func (h handleListing) Leave() leaving { return h.Listing.Leave() }

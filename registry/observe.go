package registry

import (
	"context"
	"iter"

	"github.com/eiderhq/eider"
)

// Watch yields views of a service, newest wins: a slow reader skips. It observes: it never
// acknowledges and never delays a drain. While the registry is away it yields the error once and goes
// on; it ends with ctx, with an error if the service's name breaks a bound, and with eider.Closed.
func (r *Registry) Watch(ctx context.Context, service string) iter.Seq2[*eider.View, error] {
	return func(yield func(*eider.View, error) bool) {
		s, err := r.observe.join(service)
		if err != nil {
			yield(nil, err)
			return
		}
		defer s.Close()
		var last *eider.View
		away := false
		for {
			u, err := s.Next(ctx)
			if err != nil {
				if ctx.Err() == nil {
					yield(nil, err)
				}
				return
			}
			if u.Err != nil && !away && !yield(nil, u.Err) {
				return
			}
			away = u.Err != nil
			if u.View != last {
				last = u.View
				if !yield(u.View, nil) {
					return
				}
			}
		}
	}
}

package solo

import (
	"log/slog"

	"google.golang.org/protobuf/proto"

	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/internal/wire"
)

// publish encodes each batch once and gives it to the hub.
func (r *Registry) publish(batches []batch) {
	for i := range batches {
		b := &batches[i]
		frame, err := r.frame(b, b.number-1)
		if err != nil { // only text that isn't UTF-8 can't be encoded, and the table refuses it
			r.cfg.Logger.Error("a change can't be published", slog.String("service", b.service), slog.Any("err", err))
			continue
		}
		r.hub.Publish(b.service, b.number, frame)
	}
}

// frame encodes a change since base, 0 for the whole.
func (r *Registry) frame(b *batch, base uint64) ([]byte, error) {
	view := &pb.View{
		Service:   b.service,
		Cursor:    &pb.Cursor{Run: r.cfg.Run, Number: b.number},
		Complete:  b.complete,
		Base:      base,
		Instances: make([]*pb.Instance, len(b.instances)),
		Gone:      make([]*pb.Gone, len(b.gone)),
	}
	for i := range b.instances {
		view.Instances[i] = wire.FromInstance(&b.instances[i])
	}
	for i := range b.gone {
		view.Gone[i] = wire.FromGone(&b.gone[i])
	}
	return proto.Marshal(&pb.WatchReply{Kind: &pb.WatchReply_View{View: view}})
}

// snapshot encodes the whole of a service: at least what was published under its number. What is newer
// in it comes again with the next delta, which repeats whole lines and so does no harm.
func (r *Registry) snapshot(name string) (uint64, []byte, error) {
	b, err := r.whole(name)
	if err != nil {
		return 0, nil, err
	}
	frame, err := r.frame(&b, 0)
	return b.number, frame, err
}

func (r *Registry) whole(name string) (batch, error) {
	defer r.mu.Unlock()
	if _, err := r.enter("watch " + name); err != nil {
		return batch{}, err
	}
	s := r.services.get(name)
	b := batch{service: name, number: s.number, complete: r.complete}
	b.instances, b.gone = r.table.View(name)
	return b, nil
}

// current encodes a delta that changes nothing: it tells a caller that it has missed nothing.
func (r *Registry) current(name string, number uint64) ([]byte, error) {
	r.mu.Lock()
	b := batch{service: name, number: number, complete: r.complete}
	r.mu.Unlock()
	return r.frame(&b, number)
}

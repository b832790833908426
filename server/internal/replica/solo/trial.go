package solo

import (
	"log/slog"

	"google.golang.org/protobuf/proto"

	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/server/internal/hub"
	"github.com/eiderhq/eider/server/internal/ledger"
)

// trial is one caller's, to be told without the lock.
type trial struct {
	ledger.Trial
	to *hub.Watcher
}

// takeTrials takes, under the lock, the trials of callers that are still here. They are told after what is
// published in the same turn: who is asked to try an instance should know why.
func (r *Registry) takeTrials() []trial {
	if len(r.trials) == 0 {
		return nil
	}
	out := make([]trial, 0, len(r.trials))
	for _, t := range r.trials {
		if w := r.followers[t.Follower]; w != nil {
			out = append(out, trial{t, w.hub})
		}
	}
	r.trials = r.trials[:0]
	return out
}

// tell asks callers to try an instance.
func (r *Registry) tell(trials []trial) {
	for i := range trials {
		d := &trials[i].Departure
		frame, err := proto.Marshal(&pb.WatchReply{Kind: &pb.WatchReply_Trial{Trial: &pb.Trial{
			Service: d.Service, Id: d.ID, Nonce: d.Incarnation.Nonce}}})
		if err != nil { // only text that isn't UTF-8 can't be encoded, and the table refuses it
			r.cfg.Logger.Error("a trial can't be told", slog.String("service", d.Service), slog.Any("err", err))
			continue
		}
		trials[i].to.Tell(frame)
	}
}

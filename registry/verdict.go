package registry

import (
	"math/rand/v2"
	"time"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/internal/wire"
	"github.com/eiderhq/eider/retry"
)

// verdictsEvery is how often verdicts travel at most. The first is told at once.
const verdictsEvery = 250 * time.Millisecond

// Verdicts tells the registry what this follower's circuit breakers say of instances of the service, for people to
// see, and for it to look for itself. Only what has changed needs to be told: a word on an instance replaces the one
// before, and closed takes it back. It doesn't block.
//
// However often breakers change, at most four messages a second tell of them, each the newest word only. At most
// [eider.MaxVerdicts] words that aren't closed are kept for a handle; what is said of more instances isn't told. Of
// several followers of a service the gravest word on an instance is told. On a new stream, also to another node,
// everything is told anew; what ends with the stream, the subscription or the instance needn't be taken back.
func (s *Subscription) Verdicts(changed ...eider.Verdict) {
	w, f := s.w, s.feed
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.closed || w.observer {
		return
	}
	for i := range changed {
		if v := &changed[i]; s.keep(v) {
			f.rejudge(v.ID)
		}
	}
	if len(f.rejudged) > 0 && !w.judging {
		w.judging = true
		w.ring()
	}
}

// keep takes a verdict down; false if there's no room or nothing to tell. Called with w.mu held.
func (s *Subscription) keep(v *eider.Verdict) bool {
	old, known := s.verdicts[v.ID]
	switch {
	case eider.CheckID(v.ID) != nil || v.Incarnation.Nonce == 0 || int(v.State) >= eider.BreakerStates:
		return false
	case v.State == eider.BreakerClosed:
		if !known || !old.Incarnation.Is(v.Incarnation) {
			return false
		}
		s.forget(v.ID)
		return true
	case !known && s.w.verdicts >= eider.MaxVerdicts:
		return false
	case !known:
		s.w.verdicts++
	}
	if s.verdicts == nil {
		s.verdicts = make(map[string]eider.Verdict)
	}
	s.verdicts[v.ID] = *v
	return true
}

func (s *Subscription) forget(id string) {
	delete(s.verdicts, id)
	s.w.verdicts--
}

// forgetAll takes back what a follower that ends has said.
func (s *Subscription) forgetAll() {
	for id := range s.verdicts {
		s.forget(id)
		s.feed.rejudge(id)
		s.w.judging = true
	}
}

// rejudge has the word on an instance told again, if it is another one by then.
func (f *feed) rejudge(id string) {
	if f.rejudged == nil {
		f.rejudged = make(map[string]struct{})
	}
	f.rejudged[id] = struct{}{}
}

// rejudgeAll has everything told anew, to a node that knows none of it or may have refused to hear it.
func (f *feed) rejudgeAll() {
	for _, s := range f.followers {
		for id := range s.verdicts {
			f.rejudge(id)
			s.w.judging = true
		}
	}
}

// bury forgets verdicts on incarnations that a view shows to be gone. The node does so by itself.
func (f *feed) bury(v *eider.View) {
	for _, s := range f.followers {
		for id, verdict := range s.verdicts {
			in, listed := v.Find(id)
			if listed && !in.Incarnation.Is(verdict.Incarnation) || !listed && v.Complete {
				s.forget(id)
				if f.told[id] == verdict.Incarnation.Nonce {
					delete(f.told, id)
				}
			}
		}
	}
}

// gravest is the word on an instance that counts of those of all followers.
func (f *feed) gravest(id string) (v eider.Verdict, any bool) {
	for _, s := range f.followers {
		if one, ok := s.verdicts[id]; ok && (!any || one.State.Graver(v.State)) {
			v, any = one, true
		}
	}
	return v, any
}

// judge returns the verdicts to be told now, after the subscriptions, and when to look again. Called with w.mu held.
func (w *watcher) judge(now time.Time) (say []*pb.WatchRequest, again time.Time) {
	if !w.judging || !w.judged {
		return nil, time.Time{}
	}
	if now.Before(w.judgeBy) {
		return nil, w.judgeBy
	}
	w.judging = false
	for _, f := range w.feeds {
		if !f.asked {
			w.judging = w.judging || len(f.rejudged) > 0 // once it is asked for
			continue
		}
		for verdicts := f.words(now); len(verdicts) > 0; {
			n := min(len(verdicts), eider.MaxVerdicts)
			say = append(say, &pb.WatchRequest{Kind: &pb.WatchRequest_Verdicts{Verdicts: &pb.Verdicts{Service: f.service, Verdicts: verdicts[:n]}}})
			verdicts = verdicts[n:]
		}
	}
	if len(say) > 0 {
		w.judgeBy = now.Add(retry.Early(verdictsEvery, 0.25, rand.Float64()))
	}
	return say, time.Time{}
}

// words are the verdicts of one service that are to be told. That one is closed is told only of one that was told to
// be something else.
func (f *feed) words(now time.Time) (out []*pb.Verdict) {
	for id := range f.rejudged {
		v, any := f.gravest(id)
		if !any {
			nonce, told := f.told[id]
			if !told {
				continue
			}
			delete(f.told, id)
			out = append(out, &pb.Verdict{Id: id, Nonce: nonce})
			continue
		}
		if f.told == nil {
			f.told = make(map[string]uint64)
		}
		f.told[id] = v.Incarnation.Nonce
		out = append(out, wire.FromVerdict(&v, now))
	}
	clear(f.rejudged)
	return out
}

package ledger

// sleeper has something to do at a moment. It is in the table's heap at most once, and knows its place
// there (counted from 1; 0 is nowhere), so that it can be taken out.
type sleeper interface {
	place() *int32
	due(*Table)
}

type alarm struct {
	at  moment
	who sleeper
}

// alarms is a heap of four children a node: flatter, so that a step touches fewer cache lines.
// What is renewed all the time isn't in it with its true deadline, but with an earlier one, and looks
// again when that comes: a beat is no heap operation.
type alarms []alarm

// set wakes who at a moment, instead of whenever it was to be woken.
func (h *alarms) set(who sleeper, at moment) {
	p := who.place()
	if *p == 0 {
		*h = append(*h, alarm{})
		*p = int32(len(*h))
		h.up(int(*p)-1, alarm{at, who})
		return
	}
	h.fix(int(*p)-1, alarm{at, who})
}

// soon wakes who at a moment, or earlier if it was to be woken earlier.
func (h *alarms) soon(who sleeper, at moment) {
	if p := *who.place(); p == 0 || (*h)[p-1].at > at {
		h.set(who, at)
	}
}

// cancel takes who out.
func (h *alarms) cancel(who sleeper) {
	p := who.place()
	if *p == 0 {
		return
	}
	i, last := int(*p)-1, len(*h)-1
	*p = 0
	moved := (*h)[last]
	(*h)[last] = alarm{}
	*h = (*h)[:last]
	if i < last {
		h.fix(i, moved)
	}
}

func (h *alarms) fix(i int, a alarm) {
	if i > 0 && a.at < (*h)[(i-1)/4].at {
		h.up(i, a)
		return
	}
	h.down(i, a)
}

func (h *alarms) up(i int, a alarm) {
	s := *h
	for i > 0 {
		parent := (i - 1) / 4
		if s[parent].at <= a.at {
			break
		}
		s[i] = s[parent]
		*s[i].who.place() = int32(i + 1)
		i = parent
	}
	s[i] = a
	*a.who.place() = int32(i + 1)
}

func (h *alarms) down(i int, a alarm) {
	s := *h
	for {
		child := 4*i + 1
		if child >= len(s) {
			break
		}
		for c := child + 1; c < min(4*i+5, len(s)); c++ {
			if s[c].at < s[child].at {
				child = c
			}
		}
		if s[child].at >= a.at {
			break
		}
		s[i] = s[child]
		*s[i].who.place() = int32(i + 1)
		i = child
	}
	s[i] = a
	*a.who.place() = int32(i + 1)
}

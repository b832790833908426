package ledger

// list holds entries in the order in which they came. An entry is in one list at most: among its group's
// overdue while it is live, among the tombstones when it is gone.
type list struct {
	first, last *entry
	length      int
}

func (l *list) empty() bool { return l.first == nil }

func (l *list) push(e *entry) {
	e.prev, e.next = l.last, nil
	if l.last == nil {
		l.first = e
	} else {
		l.last.next = e
	}
	l.last = e
	l.length++
}

func (l *list) remove(e *entry) {
	if e.prev == nil {
		l.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		l.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.prev, e.next = nil, nil
	l.length--
}

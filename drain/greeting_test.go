package drain

import (
	"net"
	"testing"
	"time"
)

// How long one may take for its first words once the pause has ended: a silence from its last, and two from the end of
// the pause, or from its Accept after it, whatever it says. One that speaks is left alone.
func TestD10HowLongFirstWordsMayTake(t *testing.T) {
	const barrier, silent = 10 * time.Hour, time.Hour // a busy machine's minutes change nothing
	for _, c := range []struct {
		name             string
		now, heard, came time.Duration
		speaks           bool
		closed           bool
		next             time.Duration
	}{
		{"it has just come", barrier + 15*time.Minute, 0, 0, false, false, barrier + silent},
		{"it was heard", barrier + 90*time.Minute, barrier + 45*time.Minute, 0, false, false, barrier + 105*time.Minute},
		{"it has fallen silent", barrier + 110*time.Minute, barrier + 45*time.Minute, 0, false, true, 0},
		{"it goes on for ever", barrier + 125*time.Minute, barrier + 124*time.Minute, 0, false, true, 0},
		{"it came later", barrier + 125*time.Minute, barrier + 124*time.Minute, barrier + time.Hour, false, false, barrier + 180*time.Minute},
		{"it speaks", barrier + 20*time.Hour, 0, 0, true, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDrainer(settings{Config: Config{Silent: silent}}, nil)
			d.other = &loop{}
			d.base = time.Now().Add(-c.now)
			here, there := net.Pipe()
			defer there.Close()
			defer here.Close()
			nc, err := d.book.admit(here)
			if err != nil {
				t.Fatal(err)
			}
			nc.SetDeadline(time.Now().Add(time.Hour))
			if c.speaks {
				nc.SetDeadline(time.Time{})
			}
			nc.phase.Store(busy)
			nc.sign.Store(int64(c.heard))
			nc.came = c.came
			next, waiting, all := d.book.sweepOther(barrier)
			closed := nc.phase.Load() == closing
			if closed != c.closed || next != c.next || all != 1 || (waiting == 0) != (c.closed || c.speaks) {
				t.Errorf("closed %t, next in %s, %d waited for of %d; want closed %t, next %s", closed, next, waiting, all, c.closed, c.next)
			}
		})
	}
}

// Package bulkhead answers: is there room for one more call of this dependency, or would it take what others need?
//
// A [Bulkhead] admits a number of calls at a time, its limit, and turns away the rest, at once or after a bounded
// wait. What hangs then holds its own share of a pool and no more:
//
//	            ┌──────────── a pool of 200 ────────────┐
//	without     │████████████████████████████████████████│ 500/s into one that hangs: full in 0.4 s, for everybody
//	limit 50    │██████████░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░│ 50 hang, 450/s are told so in a microsecond, 150 are free
//
// # Limits that find themselves
//
// Without a Limit it measures two things and takes Little's law, L = λ·W: calls at once are calls a second times
// seconds a call.
//
//	 λ  calls that come ─────┐
//	    (admitted, or not)   │
//	                         ├──►  λ · W · Headroom  ──► a step at a time ──► within Min … Max ──► the limit
//	 W  how long a healthy   │      500/s · 50ms · 2
//	    call takes ──────────┘        = 50
//
//	limit  50 ┤────────────────────────────────────  the dependency hangs: calls come as before, nothing healthy
//	          │                 ┌──────────────────  comes back, nothing is learnt, 50 it stays
//	in        │                 │
//	flight 25 ┤─────────────────┘
//	          └─────────────────┴──────────────────► time
//
// λ counts calls that come, also those that are turned away: a bulkhead that learnt from what it admits would starve
// by its own limit. It is the greater of two means, of which one comes half way to what is new in two seconds, the other
// in thirty: upwards λ follows soon, downwards it takes its time.
//
// W is the mean over healthy calls of the last ten seconds or so of traffic. The mean, since that is what the law is
// about: with one call in ten at 500 ms and the others at 5, the median would turn away four fifths of what is well.
// Healthy calls alone, and of a quarter of a second in which most calls were: calls that hang don't come back, or when the
// hang ends, after SlowLimit. And slowly upwards: once it has been known
// for thirty seconds, W at most doubles in a minute, so that a dependency that answers everything ten times as slowly
// doesn't get ten times the room. Downwards it follows at once.
//
// Time without calls teaches nothing, nor does time in which the dependency is ill: limit, λ and W stay as they are.
// Before ten healthy calls have been measured the limit is 50, within Min and Max.
//
// # Slots end by themselves
//
// A [Slot] that nobody releases, since an answer's body was dropped or a call never came back, is taken back when its
// lease ends, counted, and told. There is no timer for it: slots in flight are counted by when they began, in sixteen
// words, one for a fifteenth of the lease each.
//
//	epoch    …  7   8   9  10  11  12  13  14  15  16  17  18  19  20  21 │22   now, in epoch 22
//	word     …  7   8   9  10  11  12  13  14  15   0   1   2   3   4   5   6   was epoch 6's: its slots are taken back
//	            └────────────────────── the lease ─────────────────────┘
//
// Releasing a slot counts it out only where its own epoch is still the word's, so a late release changes nothing.
package bulkhead

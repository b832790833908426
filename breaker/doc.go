// Package breaker answers: may this call be made, or is its target known to be failing, slow or hanging?
//
// A [Breaker] guards one target of one caller. It is closed while calls go well, open while they don't, and
// half-open while a few trial calls find out:
//
//	                 a rule is broken: failures, slow calls,
//	                 failures in a row, calls that hang
//	         ┌───────────────────────────────────────────────────┐
//	         │                                                   ▼
//	   ┌───────────┐  Ramp has passed  ┌───────────┐        ┌──────────┐
//	──►│  Closed   │◄──────────────────│  Ramping  │───────►│   Open   │◄──────────┐
//	   └───────────┘                   └───────────┘ a rule └──────────┘           │
//	         ▲                               ▲   is broken       │ OpenFor has     │ a trial failed, was slow,
//	         │ no Ramp                       │                   │ passed and      │ or wasn't settled by its
//	         │                               │                   ▼ somebody calls  │ deadline
//	         │        Successes trials       │             ┌──────────┐            │
//	         └───────── went well ───────────┴─────────────│ HalfOpen │────────────┘
//	                                                       └──────────┘
//
//	by hand, from any state:  ForcedOpen   ForcedClosed   MetricsOnly      Reset: back to Closed
//
// What it does that others don't: a call counts as slow when it passes the slow limit, not when it returns. Two
// hundred calls that hang say nothing to a breaker that waits for their answers. It needs no goroutine, no timer
// and no list for it: calls in flight are counted by when they began, in sixteen words, and the word that has
// become older than the limit is counted as slow, whole.
//
// A call's [Permit] is a value. What is done with it ends in exactly one of [Permit.Settle] and [Permit.Done]; one that is
// forgotten counts as slow when it should have been settled, and blocks nothing for ever.
package breaker

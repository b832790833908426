// Package check answers: can this program serve now?
//
// A [Check] asks once, through the path that requests take, since a lease that is renewed and a process that runs
// say nothing of requests that hang (U3). [Config.Run] asks again and again, and tells what changes:
//
//	            Rise answered             Fall in a row not answered
//	Starting ────────────────▶ Ready ───────────────────────────────▶ Ill
//	   │                        ▲  ▲                                   │
//	   │ Start has passed       │  └───────────────────────────────────┘
//	   ▼                        │               Rise answered
//	Overdue ────────────────────┘
//
// What is asked until the program is ready is Config.Ready, and from then on Config.Live: what takes long at the
// start, a migration say, is no illness, and what a program needs once isn't asked for ever.
package check

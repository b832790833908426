// Package supervise answers: how does a program that knows nothing of Eider live and leave as one that does?
//
// [Run] is its parent, as PID 1 too. It starts the program, registers it once it is ready, keeps telling the registry
// whether it answers, and on SIGTERM or SIGINT takes it down in the order of package drain:
//
//	          ready                  SIGTERM, SIGINT          pauses over                 nobody left
//	started ────────▶ listed ───────────────────────▶ leaving ───────────▶ signalled ──────────────▶ gone
//	   │  SIGTERM                 (it serves on)                              │ in-flight deadline, second SIGINT
//	   └──────────────────────────────────────────────────────────────────▶   └──▶ killed
//
// A program that ends by itself leaves at once if its exit code is 0, and is dead for the registry if not; it may then be
// started anew. Whoever is left of it, in its process group or beyond, is told and waited for under the same deadline.
//
// There is one place that waits for children, since whoever is PID 1 has those of others too: the reaper.
package supervise

// Package sim plays whole fleets against the ledger's arithmetic: several tables, processes that
// crash, stop, move and leave, callers that pick, and a network that delays, drops, duplicates, reorders
// and cuts. Everything follows from a seed, so every failure is replayed by it.
//
// What must hold is checked as things happen (invariant.go):
//
//   - no barrier is reached while a caller that lives could still pick the instance, unless it is covered by
//     a cap that names it, or whoever stands for it;
//   - no node ever replaces a record by an older one, and LEFT never comes back;
//   - whom operators hold is shown as held, through attaches, new incarnations and restarts of its node, until it is
//     released or the hold's end comes; nobody leaves for it; a count of a hold is given once; and whoever isn't held
//     is picked again;
//   - nobody lapses whose beat has been heard within its lease;
//   - when all is healed, all tables agree, every drain has ended, and whoever lives and beats is listed.
package sim

// Package etcdstore keeps fleet breakers in etcd: a [fleet.Store] for who runs one already.
//
//	client, err := clientv3.New(clientv3.Config{
//		Endpoints:            []string{"https://etcd-1:2379", "https://etcd-2:2379", "https://etcd-3:2379"},
//		DialKeepAliveTime:    10 * time.Second, // a member that hangs is left for another after 13 s; without this it never is
//		DialKeepAliveTimeout: 3 * time.Second,
//	})
//	store := etcdstore.New(client, etcdstore.Config{})
//
// # What is there
//
// A record is at PREFIX/KEY/r, what a caller has counted at PREFIX/KEY/c/CALLER; keys and callers are escaped as in a URL's
// path, so that none collides with another. Each value begins with eight bytes that are drawn anew for each write: a record's
// version. Revisions aren't asked: those of a cluster that was restored from a snapshot come a second time.
//
// # Promises
//
//   - Tell and Swap are one transaction each, decided by a quorum of the members. A member, or any minority, may end, hang or be
//     cut off. A call ends with its context, whatever etcd does.
//   - Watch is pushed from the revision on that it has read, so that nothing is missed. It begins anew after a compaction, and
//     looks for itself each 10 s, which finds an etcd that hangs (it then ends with an error, within 15 s), has lost its disk or was
//     restored. On a member without a leader it ends with an error.
//   - A record lives for fleet.Keep (an hour) after it was last swapped or told of, and a quarter more at most; a count for
//     fleet.KeepCounts (30 s) and half of that more at most. Both end by leases, whose clock is etcd's: in whole seconds, and anew
//     in full when the members elect another leader.
//
// # Limits
//
//   - Etcd tells its clients no time. A [fleet.Sight] is as old as since this Store first saw it, at first 0, which is never more
//     than the truth: who joins late may wait for up to one open time more before a trial, and takes what a caller told before it ended
//     for fresh, once. Who was there when a record was written has it by push within milliseconds.
//   - Etcd keeps every write until it is compacted, and isn't compacted unless told to be: some 200 bytes a count, so that 50
//     callers with traffic fill its 2 GB in two days, and then every write fails. Set --auto-compaction-mode=periodic and
//     --auto-compaction-retention=5m, or let whoever owns the cluster (as Kubernetes does) compact it.
//   - [fleet.Count] says nothing of From: etcd can't tell who wrote.
//   - It writes to a log with an fsync for each Tell that has a count. On a disk that is slow, etcd is slow for all that use it.
//
// # Cost
//
// For each caller and target: one transaction a second with traffic (a write); at rest one each five seconds, and one read each
// ten, neither of which is written to a disk. A first count after none is a second one, and so is a key's first record. For each
// Store: a lease each 15 s while it tells counts; each record's is kept alive once in 15 minutes. One stream for all watches.
//
// Both ways together, with a record of 300 bytes and counts of 100: 0.7 kB a count, 0.4 kB at rest, 9 kB for the counts of 50 callers,
// which only who sees something bad asks for.
package etcdstore

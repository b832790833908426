// Package redisstore keeps what callers share of a fleet breaker in Redis: a [fleet.Store] over a go-redis client of one's
// own.
//
//	client := redis.NewClient(&redis.Options{Addr: "redis:6379"})
//	guard, err := fleet.New(fleet.Config{Store: redisstore.New(client, redisstore.Config{}), Key: "payments"})
//
// One Store serves any number of keys. It needs Lua scripts and pub/sub, and scripts that are replicated by what they do: Redis 5 or
// newer, or Valkey; tried with Redis 6.2, 7.0 and 8.2 and Valkey 9.1. One server, Sentinel or a Cluster, no Ring. Scripts are
// sent by their hash, and whole to a server that doesn't know them.
//
// # What is kept
//
// Each key is one hash, named Prefix + key, so that a Cluster keeps it in one place: r, v and t are the record, its version and
// when it was written, c:CALLER what a caller told and when, p when what is too old was last looked for. All times are
// Redis' own: a client sends none. It expires [fleet.Keep] after it was last told of or swapped, and not much later. What is too old
// is taken away when somebody asks for the counts of all, or when there are too many callers to keep one more.
//
// # What it costs
//
// A Tell is one command, and so is a Swap. A caller with nothing to tell writes nothing. A healthy one writes its own field, reads
// three, and is answered with the record: at most 350 bytes each way, with a record of 200 bytes and a count of 60, names included.
// Only who asks for all counts reads more: up to [fleet.MostCallers] of them.
//
// A Watch reads once when it begins and again once its Store is subscribed, then once for each swap, whoever made it. As
// long as anybody watches a Store has one connection more, subscribed to Prefix + "changed": each swap is a message on it to each
// Store with that Prefix, of the key and its version, and each Poll it is asked for a sign of life. The message is of the classic
// kind, which a Cluster hands to all its nodes: a swap is rare, and a shard's own channel needs Redis 7 and a connection to each shard.
//
// # What it promises, and what not
//
// While one server answers, versions are swapped one after the other and none comes back; ages are never more than the truth as
// long as that server's clock isn't set forward; a Watch sees each new version at once. A swap that was missed, because a
// subscription was cut or died without a word, is seen when there is another subscription, or after Poll; a FLUSHALL, which
// Redis tells nobody of, by the next Tell of the same Store or after Poll.
//
// A call returns when its context ends, whatever the client does: go-redis' clients wait for an answer until their own
// ReadTimeout, unless ContextTimeoutEnabled is set. What was sent then may still be done. At most 256 such calls wait in the
// background, and end by the client's timeouts; don't set these to none. A Swap that the client repeats, because the connection ended
// before the answer, counts as done if it was.
//
// Redis replicates behind its answers. A replica that becomes master may lack the last writes, and then they never were: callers
// see an older version again, join anew and go on from there. If what was lost gave the permit of a trial, its holder is still
// making that one call if it had begun, while another caller may be given the permit that the new master knows nothing of: two trials at once,
// for at most the holder's lease, of which one verdict is heard. The same holds after a FLUSHALL, after a restart without
// the last writes on disk, and while a master that is cut off doesn't know yet that it has been replaced. WAIT or min-replicas-to-write
// make it less likely, not impossible. And ages are by the server's clock: if the new master's runs ahead of the old one's,
// what was written before is older by that. Keep the servers' clocks together; those of callers don't matter.
//
// Give fleet breakers a Redis that evicts nothing (maxmemory-policy noeviction): a record that is evicted is a record that
// is lost. When it is full, callers at rest go on; what would write fails, with an error that says so.
//
// A user of its own needs this of Redis' ACL, with ~eider:fleet:* and &eider:fleet:changed:
//
//	commands: evalsha eval subscribe ping time hget hmget hset hdel hlen hexists hgetall pttl pexpire publish
package redisstore

// Package fleet is one circuit breaker for all callers of a target, wherever they run. They share a small record in a
// [Store]; a call reads local memory alone.
//
//	shared, err := fleet.New(fleet.Config{Store: reg.Fleet(), Key: "payments"}) // reg is a *registry.Registry
//	defer shared.Close()
//	err = shared.Do(ctx, charge) // charge's error, or a *breaker.Rejected: errors.Is(err, breaker.ErrRejected)
//
// It opens when Quorum callers see that calls fail, are slow or hang, and it is true of all their calls together; then one call of
// one caller tries, on a lease. Each caller has a breaker of its own besides, which decides while the fleet's is closed, and while
// the store is away, slow or has forgotten what it knew: nothing is rejected for that, OnEvent says so, and it joins again by itself.
//
// A breaker for each caller and instance is the default elsewhere in this module, and right for most: docs/fleet.md says when to share
// one, what it costs, and what each store promises. Stores are [Memory], the registry, and the modules breaker/redisstore and
// breaker/etcdstore.
package fleet

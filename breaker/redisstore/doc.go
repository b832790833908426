// Package redisstore keeps what callers share of a fleet breaker in Redis: a [fleet.Store] over a go-redis client of one's
// own.
package redisstore

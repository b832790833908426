// Package fleet is one circuit breaker for all callers of a target, wherever they run. They share a small record in a
// [Store]; a call reads local memory alone.
package fleet

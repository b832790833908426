// Package meter counts what a process does as a caller and as an instance, without a metrics library: hand one [Meter] to
// registry.Config, and read it, publish it by expvar (it is a Var), or export it by whatever the program uses.
//
//	counts := &meter.Meter{}
//	reg := registry.Open(registry.Config{Meter: counts})
//	expvar.Publish("eider", counts)
package meter

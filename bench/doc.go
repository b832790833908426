// Package bench measures Eider beside its peers in the same run: ratios gate, times are recorded.
//
//	go run ./gates          every gate of docs/benchmarks.md, in turns with its peer, as a table
//	go test -bench . ./...  the same measurements one by one
//
// Every server is a process of its own; Eider's is the built binary.
package bench

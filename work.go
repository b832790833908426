package eider

import "time"

// Work is what one instance has done since its process began, by its own count. Arrived ≥ Ended ≥ Completed.
type Work struct {
	Arrived   uint64        `json:"arrived"`             // requests; probes, streams and upgraded connections aren't counted
	Completed uint64        `json:"completed"`           // of those, answers wholly written to a client that still listened
	Ended     uint64        `json:"ended"`               // of those that arrived, the ones that are over, completed or not
	Slowest   time.Duration `json:"slowest_ns,omitzero"` // the slowest that completed within the last minute
	Unknown   bool          `json:"unknown"`             // within the last five minutes somebody called who doesn't say who he is
}

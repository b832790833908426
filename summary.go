package eider

import "time"

// Summary is one service at a glance.
type Summary struct {
	Service  string `json:"service"`
	Up       int    `json:"up"`      // UP and unsuspected
	Suspect  int    `json:"suspect"` // UP, but doubted
	Starting int    `json:"starting"`
	Down     int    `json:"down"`
	Draining int    `json:"draining"`
	Held     int    `json:"held"` // of all of these, the ones that an operator holds
	Gone     int    `json:"gone"` // ended lately, as a view shows them: at most 256
	Callers  int    `json:"callers"`
	Behind   int    `json:"behind"` // callers that haven't applied the newest view yet
	Cursor   Cursor `json:"cursor"`
}

// Node is one registry server as it describes itself.
type Node struct {
	Name      string        `json:"name"`
	Run       uint64        `json:"run"`
	Version   string        `json:"version"`
	Stance    string        `json:"stance"` // "AP, one node"
	Since     time.Time     `json:"since"`
	Ready     bool          `json:"ready"`
	Complete  bool          `json:"complete"`       // its views are: it isn't cold
	Void      []string      `json:"void,omitempty"` // what voids its bounds now, in sentences
	Services  int           `json:"services"`
	Instances int           `json:"instances"`
	Callers   int           `json:"callers"`
	Holds     int           `json:"holds"`    // keys that are held, also those that nobody has now
	Bound     time.Duration `json:"bound_ns"` // a drain begun now pauses no longer than this
}

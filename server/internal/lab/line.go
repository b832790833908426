package lab

import (
	"encoding/json"
	"io"
	"sync"
	"time"
)

// line is what a child tells its conductor, one JSON object a line on its standard output.
type line struct {
	Kind string `json:"k"`

	// What `eider server --json` says once it serves.
	Ready bool   `json:"ready,omitempty"`
	GRPC  string `json:"grpc,omitempty"`
	HTTP  string `json:"http,omitempty"`

	// Kind "serving": an instance listens; "up": it is listed, or a caller has its first answer; "draining": where its
	// drain stands; "exit": how it ended.
	Address string        `json:"address,omitempty"`
	Text    string        `json:"text,omitempty"`
	Bound   time.Duration `json:"bound,omitempty"`
	Pause   time.Duration `json:"pause,omitempty"`

	// Kind "up" and "exit" of an instance that Eider drains: its name (see nameOf), and how it left.
	To   string     `json:"to,omitempty"`
	Left *departure `json:"left,omitempty"`

	// Kind "tick": what a caller has seen since the last one.
	OK    int              `json:"ok,omitempty"`
	By    map[string]int   `json:"by,omitempty"`    // answers by instance id
	Picks map[string]int64 `json:"picks,omitempty"` // port to the start of the last try there, in Unix ns
	Slow  time.Duration    `json:"slow,omitempty"`  // the longest call

	// Kind "tick" of a caller that keeps a journal: who it is, and by nameOf when its last try there began, and
	// when its roster no longer had it.
	Who   string           `json:"who,omitempty"`
	Tries map[string]int64 `json:"tries,omitempty"`
	Lost  map[string]loss  `json:"lost,omitempty"`

	// Kind "full": a front's pool is full, in Unix ns.
	At int64 `json:"at,omitempty"`

	// Kind "saw": its roster has changed; "empty": it has nobody to call.
	Saw *sighting `json:"saw,omitempty"`

	// Kind "failed": one call that failed.
	Failure *failure `json:"failure,omitempty"`
}

// failure is one call that failed, as its caller saw it. Times are Unix ns of this machine's one clock.
type failure struct {
	Way    string `json:"way,omitempty"` // of its caller
	Why    string `json:"why"`           // refused, cut, timeout, sent twice, other
	Begun  int64  `json:"begun"`         // when the call began
	Opened int64  `json:"opened"`        // when the connection that it was last written to was opened; 0 if never written
	Target string `json:"target"`        // the port last tried
	Detail string `json:"detail"`
}

// The kinds of failure, in the order in which they are shown.
const (
	whyRefused = "refused"
	whyCut     = "cut"
	whyTimeout = "timeout"
	whyTwice   = "sent twice"
	whyOther   = "other"
)

// teller writes lines, whole, from any goroutine.
type teller struct {
	mu  sync.Mutex
	enc *json.Encoder
}

func newTeller(w io.Writer) *teller { return &teller{enc: json.NewEncoder(w)} }

// tell can't fail usefully: a conductor that is gone ends its children by closing their input.
func (t *teller) tell(l line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_ = t.enc.Encode(l)
}

// Package control answers: how does a hook beside a process have it leave, without a shell and without a signal?
//
// There are two ways to ask, each off unless it is named. A process of the same pod and the same user says so over an
// abstract Unix socket, which needs no file system, and ends with whoever listens; it is of one network namespace. And
// kubelet, or whoever else can reach the address, says GET /leave.
//
// On the socket a question is a line of JSON, as is the answer: {"do":"leave","wait":true}. Either way the answer comes
// at once, or, if it is waited for, when the pause is over.
package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Departure is what is asked to leave. Its methods are called from any goroutine.
type Departure interface {
	Leave()                // begins it; idempotent; returns at once
	Left() <-chan struct{} // closed when the pause is over: SIGTERM may come
	Outcome() Answer       // how it stands
}

// The states of an Answer.
const (
	Serving = "serving"
	Leaving = "leaving"
	Left    = "left" // nobody is waited for any more
)

// Answer says how a departure stands.
type Answer struct {
	State    string        `json:"state"` // Serving, Leaving or Left
	Services []string      `json:"services,omitempty"`
	Pause    time.Duration `json:"pause_ns"`           // what it took, once it has Left
	EndedBy  string        `json:"ended_by,omitempty"` // as drain.EndedBy has it; of several services the longest pause's
	Waited   int           `json:"waited"`             // callers that it counted
	Open     int           `json:"open"`               // of those, how many hadn't let go when the pause ended
}

// Why Leave comes back without an answer.
var (
	ErrNobody = errors.New("nobody listens there")
	ErrDenied = errors.New("denied")
)

// What bounds a stranger.
const (
	maxQuestion = 256              // bytes
	maxAnswer   = 64 << 10         // bytes
	speakWithin = 2 * time.Second  // a question, from the connection on
	maxConns    = 32               // at once, of each of the two; more wait in the accept queue
	sayEvery    = 10 * time.Second // refusals are logged no more often
	hangUp      = time.Second      // Close waits no longer for answers to be taken
	parting     = 100 * time.Millisecond
)

// question is what comes over the socket.
type question struct {
	Do   string `json:"do"`
	Wait bool   `json:"wait"`
}

// reply is what goes back: an answer, or why there is none.
type reply struct {
	*Answer
	Error  string `json:"error,omitempty"`
	Denied bool   `json:"denied,omitempty"`
}

// parse reads a question.
func parse(line []byte) (q question, err error) {
	if len(line) > maxQuestion {
		return question{}, fmt.Errorf("the question is longer than %d bytes", maxQuestion)
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil {
		return question{}, fmt.Errorf(`the question isn't understood (%.100s); ask as in {"do":"leave","wait":true}`, err.Error())
	}
	if _, err := d.Token(); err != io.EOF {
		return question{}, errors.New("there is more on the line than one question")
	}
	if q.Do != "leave" {
		return question{}, fmt.Errorf("%.20q can't be asked for; leave can", q.Do)
	}
	return q, nil
}

// read reads a reply.
func read(line []byte) (Answer, error) {
	var r reply
	if err := json.Unmarshal(line, &r); err != nil {
		return Answer{}, fmt.Errorf("the answer isn't understood: %.100s", err.Error())
	}
	switch {
	case r.Denied:
		return Answer{}, fmt.Errorf("%w: %.200q", ErrDenied, r.Error)
	case r.Error != "":
		return Answer{}, fmt.Errorf("it answers %.200q", r.Error)
	case r.Answer == nil || r.State != Serving && r.State != Leaving && r.State != Left:
		return Answer{}, errors.New("the answer says nothing of a departure")
	}
	return *r.Answer, nil
}

// socket is the address of a name: abstract, which net writes with an @.
func socket(name string) (string, error) {
	name = strings.TrimPrefix(name, "@")
	if name == "" || len(name) > 100 || strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return "", fmt.Errorf("control: %.120q is no name for a socket; it has 1 to 100 printable characters without a space, as in eider-orders", name)
	}
	return "@" + name, nil
}

package console

import (
	"errors"
	"math"
	"net/http"
	"strconv"

	"github.com/eiderhq/eider"
)

// statusOf is the one table from a kind of error to this wire's code.
var statusOf = map[eider.Kind]int{
	eider.Internal:    http.StatusInternalServerError,
	eider.Invalid:     http.StatusBadRequest,
	eider.NotFound:    http.StatusNotFound,
	eider.Conflict:    http.StatusConflict,
	eider.Stale:       http.StatusConflict,
	eider.Limited:     http.StatusTooManyRequests,
	eider.Unavailable: http.StatusServiceUnavailable,
	eider.NoInstance:  http.StatusServiceUnavailable,
	eider.Closed:      http.StatusServiceUnavailable,
	eider.Denied:      http.StatusForbidden,
}

// failure is how every error reads here.
type failure struct {
	Error struct {
		Kind    string `json:"kind"`
		Message string `json:"message"`
	} `json:"error"`
}

// failWith answers with an error of the house.
func failWith(w http.ResponseWriter, err error) {
	kind := eider.KindOf(err)
	status, ok := statusOf[kind]
	if !ok {
		status = http.StatusInternalServerError
	}
	if e, ok := errors.AsType[*eider.Error](err); ok && e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
	}
	fail(w, status, kind, err.Error())
}

// fail answers with a status that no kind has.
func fail(w http.ResponseWriter, status int, kind eider.Kind, message string) {
	var f failure
	f.Error.Kind, f.Error.Message = kind.String(), message
	writeJSON(w, status, f)
}

package console

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eiderhq/eider"
)

// params are what a request asks for, within bounds.
type params struct {
	service string        // "" means all
	port    string        // "" means the main port
	after   string        // "" means from the beginning
	limit   int           // at least 1
	last    int           // -1: not asked for
	wait    time.Duration // 0: don't
	polling
}

// read takes the query apart. It knows the parameters named by allowed and no others, and reports every
// fault at once.
func read(r *http.Request, allowed ...string) (params, error) {
	p := params{limit: someLimit, last: -1}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return p, invalid(fmt.Errorf("the query can't be read: %w", err))
	}
	var errs []error
	for name, values := range query {
		switch {
		case !slices.Contains(allowed, name):
			errs = append(errs, fmt.Errorf("%.40q is no parameter here%s", name, known(allowed)))
		case len(values) > 1:
			errs = append(errs, fmt.Errorf("%s: given %d times, once is enough", name, len(values)))
		default:
			errs = append(errs, p.set(name, values[0]))
		}
	}
	if slices.Contains(allowed, "caller") {
		errs = append(errs, p.missing(query)...)
	}
	if err := errors.Join(sorted(errs)...); err != nil {
		return p, invalid(err)
	}
	return p, nil
}

func known(allowed []string) string {
	if len(allowed) == 0 {
		return "; none is"
	}
	return "; known are " + strings.Join(allowed, ", ")
}

func (p *params) set(name, value string) (err error) {
	switch name {
	case "service":
		p.service = eider.FoldService(value)
		return eider.CheckService(p.service)
	case "port":
		p.port = value
		return checkText(name, value)
	case "after":
		p.after = value
		return checkText(name, value)
	case "limit":
		p.limit, err = whole(name, value, 1, maxLimit)
	case "last":
		p.last, err = whole(name, value, 0, maxLimit)
	case "caller", "every", "cache":
		return p.polling.set(name, value)
	case "wait":
		p.wait, err = time.ParseDuration(value)
		if err != nil || p.wait < 0 || p.wait > maxWait {
			return fmt.Errorf("wait: %.40q must be a duration from 0s to %s, as in 30s", value, maxWait)
		}
	}
	return err
}

func whole(name, value string, least, most int) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s: %.40q must be a whole number from %d to %d", name, value, least, most)
	}
	return n, nil
}

// checkText bounds a place in a list or a port's name; whether it names anything is for the list to say.
func checkText(name, value string) error {
	if value == "" || len(value) > 2*eider.MaxName+1 {
		return fmt.Errorf("%s: %.40q must have 1 to %d bytes, it has %d", name, value, 2*eider.MaxName+1, len(value))
	}
	return nil
}

func invalid(err error) error { return &eider.Error{Kind: eider.Invalid, Err: err} }

// sorted orders faults by their text: a query is a map, and an answer that changes by itself looks like two.
func sorted(errs []error) []error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errs
}

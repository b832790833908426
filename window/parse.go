package window

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// What a term by hand may be: far more than a window can mean, and little enough to reckon with.
const (
	longestTerm = 366 * 24 * time.Hour
	longestText = 1 << 16
	longestName = 100
	mostBuckets = 1000
)

const forms = "write NAME=1s or NAME=fixed(1s), NAME=0s..30s or NAME=uniform(0s,30s), " +
	"NAME=backoff(50ms,2s,2,1,5): the first wait, the ceiling, the factor, the jitter from 0 to 1, tries that failed, " +
	"or NAME=histogram(0s..10ms:99,5s:1): delays with their weights"

// Parse reads a term as a person writes it:
//
//	sync=1s                                     or fixed(1s): always as long
//	lease=60s..90s                              or uniform(60s,90s): any delay is as likely as the other
//	reconnect=backoff(50ms,2s,2,1,5)            Steps: First, Ceiling, Factor, Jitter, Failures
//	push=histogram(0s..10ms:99,5s..6s:0.9,8s:0.1)  measured: delays with their weights
//
// A delay is at most 366 days; the source of the term is "given". The error says what is wrong and the forms.
func Parse(text string) (Term, error) {
	if len(text) > longestText {
		return Term{}, fmt.Errorf("a term of %d characters: it can't have more than %d", len(text), longestText)
	}
	name, value, found := strings.Cut(text, "=")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	t, err := parse(name, value)
	switch {
	case !found:
		err = errors.New(`there is no "=" after the name`)
	case name == "" || len(name) > longestName || strings.ContainsFunc(name, unprintable):
		err = fmt.Errorf("a term's name has from 1 to %d printable characters", longestName)
	case err == nil:
		err = t.Check()
	}
	if err != nil {
		return Term{}, fmt.Errorf("term %.120q: %w; %s", text, err, forms)
	}
	return t, nil
}

func unprintable(r rune) bool { return !strconv.IsPrint(r) }

func parse(name, value string) (Term, error) {
	const source = "given"
	form, rest, called := strings.Cut(value, "(")
	if !called {
		from, to, err := span(value)
		return Uniform(name, from, to, source), err
	}
	inner, ends := strings.CutSuffix(rest, ")")
	if !ends {
		return Term{}, errors.New(`there is no ")" at the end`)
	}
	args := strings.Split(inner, ",")
	switch form {
	case "fixed":
		if len(args) != 1 {
			return Term{}, fmt.Errorf("fixed takes one delay, not %d", len(args))
		}
		d, err := delay(args[0])
		return Fixed(name, d, source), err
	case "uniform":
		if len(args) != 2 {
			return Term{}, fmt.Errorf("uniform takes two delays, the best and the worst, not %d", len(args))
		}
		from, errFrom := delay(args[0])
		to, errTo := delay(args[1])
		return Uniform(name, from, to, source), errors.Join(errFrom, errTo)
	case "backoff":
		steps, err := parseSteps(args)
		return Backoff(name, steps, source), err
	case "histogram":
		shape, err := parseShape(args)
		return Histogram(name, shape, source), err
	}
	return Term{}, fmt.Errorf("there is no form %.40q", form)
}

func parseSteps(args []string) (Steps, error) {
	if len(args) != 5 {
		return Steps{}, fmt.Errorf("backoff takes five values, not %d", len(args))
	}
	var s Steps
	errs := make([]error, 5)
	s.First, errs[0] = delay(args[0])
	s.Ceiling, errs[1] = delay(args[1])
	if errs[1] == nil && s.Ceiling < s.First {
		errs[1] = fmt.Errorf("the ceiling %s is below the first wait %s", s.Ceiling, s.First)
	}
	s.Factor, errs[2] = number("factor", args[2], 1, 1e6)
	s.Jitter, errs[3] = number("jitter", args[3], 0, 1)
	failures, err := number("number of failures", args[4], 0, 1e6)
	s.Failures, errs[4] = int(failures), err
	if err == nil && failures != float64(s.Failures) {
		errs[4] = fmt.Errorf("the number of failures %v isn't whole", failures)
	}
	return s, errors.Join(errs...)
}

func parseShape(args []string) ([]Bucket, error) {
	if len(args) > mostBuckets {
		return nil, fmt.Errorf("a histogram of %d buckets: it can't have more than %d", len(args), mostBuckets)
	}
	shape := make([]Bucket, len(args))
	for i, arg := range args {
		delays, weight, found := strings.Cut(arg, ":")
		if !found {
			return nil, fmt.Errorf("the bucket %.60q has no weight after a colon", strings.TrimSpace(arg))
		}
		b, err := &shape[i], error(nil)
		if b.From, b.To, err = span(delays); err != nil {
			return nil, err
		}
		if b.Weight, err = number("weight", weight, 0, 1e15); err != nil {
			return nil, err
		}
	}
	return shape, nil
}

// span reads "1s" or "0s..30s".
func span(text string) (from, to time.Duration, err error) {
	low, high, found := strings.Cut(text, "..")
	if from, err = delay(low); err != nil || !found {
		return from, from, err
	}
	to, err = delay(high)
	return from, to, err
}

func delay(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%.60q is no delay such as 30s, 50ms or 1m30s", text)
	}
	if d < 0 || d > longestTerm {
		return 0, fmt.Errorf("a delay lies between 0s and %s, and %s doesn't", longestTerm, d)
	}
	return d, nil
}

func number(what, text string, least, most float64) (float64, error) {
	f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(f >= least && f <= most) {
		return 0, fmt.Errorf("the %s %.60q isn't a number from %v to %v", what, strings.TrimSpace(text), least, most)
	}
	return f, nil
}

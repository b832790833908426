package breaker

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Stories from the published rules of others, where they are ours too. A line is one step:
//
//	story NAME            what follows is one breaker's, with no jitter
//	with FIELD=VALUE …    its settings
//	call OUTCOME [xN] [DURATION]   calls that are let through, one after the other, each taking so long: ok, fail, neutral, refused
//	begin NAME [xN]       calls that are let through, and stay out
//	end NAME OUTCOME      one of them ends
//	report OUTCOME        an outcome of no call
//	rejected [xN]         calls that aren't let through
//	advance DURATION      time passes
//	hand STATE            by hand: closed, forced open, forced closed, metrics only
//	state STATE [RULE]    what it is now
//	window TOTAL FAILED SLOW   what it counts now
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, stories, _ := strings.Cut(string(text), "\nstory ")
		for text := range strings.SplitSeq(stories, "\nstory ") {
			name, steps, _ := strings.Cut(text, "\n")
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt")+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &story{t: t, sleep: func(d time.Duration) { time.Sleep(d) }, out: map[string][]Permit{}}
					for line := range strings.Lines(steps) {
						if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
							s.line = line
							s.step(strings.Fields(line))
						}
					}
				})
			})
		}
	}
}

type story struct {
	t     *testing.T
	sleep func(time.Duration)
	b     *Breaker
	out   map[string][]Permit
	line  string
}

func (s *story) fatal(format string, args ...any) {
	s.t.Helper()
	s.t.Fatalf("%s: %s: %+v", s.line, fmt.Sprintf(format, args...), s.b.Snapshot())
}

func (s *story) step(words []string) {
	args := append(words[1:], "", "")
	switch words[0] {
	case "with":
		s.with(words[1:])
	case "call":
		n, rest := s.times(words[2:])
		for range n {
			p := s.allow()
			if len(rest) > 0 {
				s.sleep(s.duration(rest[0]))
			}
			p.Settle(s.outcome(args[0]))
		}
	case "begin":
		n, _ := s.times(words[2:])
		for range n {
			s.out[args[0]] = append(s.out[args[0]], s.allow())
		}
	case "end":
		all := s.out[args[0]]
		if len(all) == 0 {
			s.fatal("nothing is out by that name")
		}
		s.out[args[0]] = all[1:]
		all[0].Settle(s.outcome(args[1]))
	case "report":
		s.b.Report(s.outcome(args[0]))
	case "rejected":
		n, _ := s.times(words[1:])
		for range n {
			if _, err := s.b.Allow(); err == nil {
				s.fatal("it was let through")
			}
		}
	case "advance":
		s.sleep(s.duration(args[0]))
	case "hand":
		s.b.byHand(s.state(strings.Join(words[1:], " ")))
	default:
		s.look(words)
	}
}

func (s *story) look(words []string) {
	rest := strings.Join(words[1:], " ")
	now := s.b.Snapshot()
	switch words[0] {
	case "state":
		want := now.State.String()
		if now.Rule != NoRule && rest != want {
			want += " " + now.Rule.String()
		}
		if rest != want {
			s.fatal("it is %s", want)
		}
	case "window":
		if got := fmt.Sprint(now.Total, now.Failures, now.Slow); got != rest {
			s.fatal("it counts %s", got)
		}
	default:
		s.fatal("no such step")
	}
}

func (s *story) allow() Permit {
	p, err := s.b.Allow()
	if err != nil {
		s.fatal("%v", err)
	}
	return p
}

func (s *story) with(words []string) {
	c := Config{Jitter: -1}
	for _, word := range words {
		field, value, _ := strings.Cut(word, "=")
		n, _ := strconv.Atoi(value)
		rate, _ := strconv.ParseFloat(value, 64)
		set := map[string]func(){
			"window": func() { c.Window = n }, "within": func() { c.Within = s.duration(value) }, "rate": func() { c.FailureRate = rate },
			"min": func() { c.FailureMin = n }, "consecutive": func() { c.Consecutive = n }, "slow": func() { c.SlowLimit = s.duration(value) },
			"slowrate": func() { c.SlowRate = rate }, "slowmin": func() { c.SlowMin = n }, "open": func() { c.OpenFor = s.duration(value) },
			"most": func() { c.MaxOpen = s.duration(value) }, "trials": func() { c.Trials = n }, "successes": func() { c.Successes = n },
			"trialtimeout": func() { c.TrialTimeout = s.duration(value) }, "ramp": func() { c.Ramp = s.duration(value) },
		}[field]
		if set == nil {
			s.t.Fatalf("%s: no such setting", s.line)
		}
		set()
	}
	s.b = New(c)
}

func (s *story) times(words []string) (n int, rest []string) {
	if len(words) > 0 && words[0][0] == 'x' {
		if n, err := strconv.Atoi(words[0][1:]); err == nil {
			return n, words[1:]
		}
	}
	return 1, words
}

func (s *story) duration(word string) time.Duration {
	d, err := time.ParseDuration(word)
	if err != nil {
		s.t.Fatalf("%s: %v", s.line, err)
	}
	return d
}

func (s *story) outcome(word string) Outcome {
	o, known := map[string]Outcome{"ok": Success, "fail": Failure, "neutral": Neutral, "refused": Refused}[word]
	if !known {
		s.t.Fatalf("%s: no such outcome", s.line)
	}
	return o
}

func (s *story) state(word string) State {
	for i, name := range stateNames {
		if name == word {
			return State(i)
		}
	}
	s.t.Fatalf("%s: no such state", s.line)
	return 0
}

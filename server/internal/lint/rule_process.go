package lint

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/eiderhq/eider/window"
)

func shellSwallowsSignal() Rule {
	return Rule{
		ID: "E013", Name: "shell-swallows-signal", Severity: Warning,
		Title: "the shell that starts the program keeps SIGTERM to itself",
		Why: `SIGTERM goes to the container's first process. When that is a shell which has started the program as its child, the
program never hears of it: as process 1 the shell ignores the signal, and at the end of the grace period everything is
killed, with whatever is in flight. exec makes the program take the shell's place. A bash replaces itself by a single
command; Debian's sh (dash) doesn't.`,
		Example: `command: [sh, -c, "source /env && java -jar app.jar"]`,
		Patch:   `command: [sh, -c, "source /env && exec java -jar app.jar"]`,
		Source:  "https://docs.docker.com/reference/dockerfile/#exec-form-entrypoint-example",
		check: func(_ *world, l *workload) []Finding {
			words, key := l.main.get("command").texts(), "command"
			if args := l.main.get("args").texts(); len(words) == 0 {
				words, key = args, "args"
			} else {
				words = append(words, args...)
			}
			script, ok := scriptOf(words)
			if !ok || !swallows(program(words[0]), script) || stops.MatchString(l.hookOf(l.main).script) {
				return nil // a hook that signals the program does what the shell doesn't
			}
			return l.here(l.main.keyLine(key), fmt.Sprintf("container %s is started by %s -c without exec: %s gets SIGTERM and the program doesn't", l.main.name, program(words[0]), program(words[0])),
				"exec before the last command of the script")
		},
	}
}

// scriptOf is what a shell is told by -c.
func scriptOf(words []string) (string, bool) {
	if len(words) < 3 || !slices.Contains(shells, program(words[0])) {
		return "", false
	}
	for i, word := range words[1 : len(words)-1] {
		if strings.HasPrefix(word, "-") && !strings.HasPrefix(word, "--") && strings.HasSuffix(word, "c") {
			return words[i+2], true
		}
	}
	return "", false
}

var (
	chained = regexp.MustCompile(`&&|\|\||[;|&\n]`)
	handsOn = regexp.MustCompile(`(?:^|[\s;&|(])(?:trap|tini|dumb-init|exec\s+"?\$)`)
	// inert is what parts no commands, whatever it holds: text in quotes, a line that goes on, a redirection.
	inert = regexp.MustCompile(`'[^']*'|"(?:\\.|[^"\\])*"|\\\r?\n|\d*[<>]&[\d-]*|&>`)
	// execs is a command that takes the shell's place, perhaps with variables of its own, or as a branch.
	execs  = regexp.MustCompile(`^(?:(?:then|else|do|\{|[^()\s]+\))\s+)?(?:[A-Za-z_]\w*=\S*\s+)*exec\s`)
	closes = regexp.MustCompile(`^(?:fi|esac|done|\}|)$`)
)

// swallows tells whether the script's last command stays a child of its shell. A script that traps signals, or hands
// the signal on by another program, knows what it does.
func swallows(shell, script string) bool {
	script = strings.TrimSpace(script)
	if handsOn.MatchString(script) {
		return false
	}
	commands := chained.Split(inert.ReplaceAllString(strings.TrimRight(script, "; \n"), "_"), -1)
	end := len(commands) - 1
	for end > 0 && closes.MatchString(strings.TrimSpace(commands[end])) {
		end-- // of an if, the last branch counts
	}
	last := strings.TrimSpace(commands[end])
	switch {
	case execs.MatchString(last) || last == "":
		return false
	case len(commands) == 1 && shell == "bash":
		return false
	}
	return true
}

func hookStops() Rule {
	return Rule{
		ID: "E014", Name: "hook-stops", Severity: Error,
		Title: "the hook stops the program instead of pausing",
		Why: `A preStop hook that tells the program to stop (nginx -s quit, kill) closes the listener at the very moment at which
Kubernetes begins to tell the nodes. That finishes what is in flight and refuses everything that still arrives, which is
what SIGTERM would have done. The pause has to come first, and to serve.`,
		Example: `lifecycle:
  preStop: {exec: {command: [nginx, -s, quit]}}`,
		Patch: `lifecycle:
  preStop: {exec: {command: [sh, -c, "sleep 5; nginx -s quit"]}}  # or only: sleep: {seconds: 5}`,
		Source: "https://kubernetes.io/docs/tutorials/services/pods-and-endpoint-termination-flow/",
		check: func(_ *world, l *workload) []Finding {
			p := l.pauseOf(l.main)
			if !p.stopsAtOnce() || p.fails(l.main) || !l.elsewhere() {
				return nil
			}
			found := l.here(p.line, fmt.Sprintf("container %s stops by its hook (%s) while callers still call it, for up to %s", l.main.name, short(p.script), tell(l.windowOf())),
				l.pausing(l.main, l.advised()))
			if l.kind == "StatefulSet" {
				found[0].Severity = Warning
			}
			return found
		},
	}
}

func immediateShutdown() Rule {
	return Rule{
		ID: "E015", Name: "immediate-shutdown", Severity: Warning,
		Title: "the program cuts what it has in flight",
		Why: `server.shutdown=immediate tells Spring Boot to close its connections at SIGTERM: each request that is being answered
then fails, after whatever pause. graceful (the default since Spring Boot 3.4) finishes them, for as long as
spring.lifecycle.timeout-per-shutdown-phase says.`,
		Example: `env:
- {name: SERVER_SHUTDOWN, value: immediate}`,
		Patch: `env:
- name: SERVER_SHUTDOWN
  value: graceful
- name: SPRING_LIFECYCLE_TIMEOUT_PER_SHUTDOWN_PHASE
  value: 20s`,
		Source: "https://docs.spring.io/spring-boot/reference/web/graceful-shutdown.html",
		check: func(_ *world, l *workload) []Finding {
			if !l.main.immediate() {
				return nil
			}
			s, rows := l.main.settings.get("server.shutdown"), []string{l.entries(l.entry("SERVER_SHUTDOWN", "graceful", ""))}
			before := window.Sum{window.Fixed("pause", l.pauseOf(l.main).length, ""), window.Fixed("calls", l.pauseOf(l.main).lasts(), "")}
			if row := l.holding(l.main, slices.DeleteFunc(before, func(t window.Term) bool { return t.Max == 0 })); row != "" && l.lacking(l.main) == 0 { // or else another finding has it
				rows = append(rows, row)
			}
			return []Finding{{File: s.file, Line: s.line, Message: fmt.Sprintf("container %s is told to cut requests in flight: %s is immediate", l.main.name, s.name), Patch: strings.Join(rows, "\n")}}
		},
	}
}

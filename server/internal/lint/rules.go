package lint

import "strings"

// Rule is one fault that manifests have.
type Rule struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`  // a word or three, with dashes: what SARIF calls a name
	Title    string   `json:"title"` // one sentence, which is a fault
	Severity Severity `json:"severity"`
	Why      string   `json:"why"`     // what happens, and how that is known
	Example  string   `json:"example"` // YAML that is found
	Patch    string   `json:"patch"`   // the YAML to write instead
	Source   string   `json:"source"`  // where to read more

	check func(*world, *workload) []Finding
}

// Rules are all, by id. A rule's id stays its own for ever.
func Rules() []Rule {
	return []Rule{
		badExcuse(), graceBudget(), noPause(), hookNeedsShell(), pauseTooShort(),
		noReadiness(), lateReadiness(), allAtOnce(), sidecarLeavesFirst(),
		loadBalancerDelay(), localTraffic(), notReadyPublished(), eurekaInterval(),
		shellSwallowsSignal(), hookStops(), immediateShutdown(), targetsNotAwaited(),
		unreadableAnnotation(), eurekaNotTold(), endpointClosed(), misplacedKey(), unknownPause(), refusedNumber(),
		unreadConfig(),
	}
}

// Find returns the rule of an id, in either case.
func Find(id string) (Rule, bool) {
	for _, r := range Rules() {
		if strings.EqualFold(r.ID, id) || strings.EqualFold(r.Name, id) {
			return r, true
		}
	}
	return Rule{}, false
}

// here makes a finding in a place of the workload's own file.
func (l *workload) here(line int, message, patch string) []Finding {
	if line == 0 {
		line = l.line()
	}
	return []Finding{{File: l.file.name, Line: line, Message: message, Patch: patch}}
}

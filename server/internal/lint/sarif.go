package lint

import (
	"net/url"
	"path/filepath"
	"strings"
)

// The part of SARIF 2.1.0 that a linter writes; the test holds it to the standard's schema.
type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool        sarifTool         `json:"tool"`
	Invocations []sarifInvocation `json:"invocations"`
	Results     []sarifResult     `json:"results"`
}

type sarifTool struct {
	Driver sarifDriver `json:"driver"`
}

type sarifDriver struct {
	Name    string      `json:"name"`
	Version string      `json:"version,omitempty"`
	URI     string      `json:"informationUri"`
	Rules   []sarifRule `json:"rules"`
}

type sarifRule struct {
	ID            string       `json:"id"`
	Name          string       `json:"name"`
	Short         sarifText    `json:"shortDescription"`
	Full          sarifText    `json:"fullDescription"`
	Help          sarifText    `json:"help"`
	HelpURI       string       `json:"helpUri,omitempty"`
	Configuration sarifDefault `json:"defaultConfiguration"`
}

type sarifDefault struct {
	Level Severity `json:"level"`
}

type sarifText struct {
	Text     string `json:"text"`
	Markdown string `json:"markdown,omitempty"`
}

type sarifInvocation struct {
	Successful    bool                `json:"executionSuccessful"`
	Notifications []sarifNotification `json:"toolExecutionNotifications,omitempty"`
}

type sarifNotification struct {
	Level     Severity        `json:"level"`
	Message   sarifText       `json:"message"`
	Locations []sarifLocation `json:"locations,omitempty"`
}

type sarifResult struct {
	RuleID    string          `json:"ruleId"`
	RuleIndex int             `json:"ruleIndex"`
	Level     Severity        `json:"level"`
	Message   sarifText       `json:"message"`
	Locations []sarifLocation `json:"locations"`
}

type sarifLocation struct {
	Physical sarifPhysical `json:"physicalLocation"`
}

type sarifPhysical struct {
	Artifact sarifArtifact `json:"artifactLocation"`
	Region   sarifRegion   `json:"region"`
}

type sarifArtifact struct {
	URI string `json:"uri"`
}

type sarifRegion struct {
	StartLine int `json:"startLine"`
}

// SARIF returns the report as code scanners take it, to be written as JSON.
func (r Report) SARIF(version string) any {
	driver := sarifDriver{Name: "eider lint", Version: version, URI: "https://github.com/eiderhq/eider", Rules: []sarifRule{}}
	index := map[string]int{}
	for i, rule := range Rules() {
		index[rule.ID] = i
		entry := sarifRule{ID: rule.ID, Name: rule.Name, Short: sarifText{Text: rule.Title}, Full: sarifText{Text: rule.Why},
			Help: sarifText{Text: rule.Explain(), Markdown: rule.Markdown()}, Configuration: sarifDefault{rule.Severity}}
		if strings.HasPrefix(rule.Source, "https://") {
			entry.HelpURI = rule.Source
		}
		driver.Rules = append(driver.Rules, entry)
	}
	run := sarifRun{Tool: sarifTool{driver}, Invocations: []sarifInvocation{{Successful: len(r.Faults) == 0}}, Results: []sarifResult{}}
	for _, f := range r.Faults {
		run.Invocations[0].Notifications = append(run.Invocations[0].Notifications,
			sarifNotification{Error, sarifText{Text: f.Message}, sarifPlace(f.File, f.Line)})
	}
	for _, f := range r.Findings {
		text := f.Message
		if f.Object != "" {
			text = f.Object + ": " + text
		}
		if f.Patch != "" {
			text += "\nwrite:\n" + f.Patch
		}
		run.Results = append(run.Results, sarifResult{f.Rule, index[f.Rule], f.Severity, sarifText{Text: text}, sarifPlace(f.File, f.Line)})
	}
	return sarifLog{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []sarifRun{run}}
}

// sarifPlace names a file as a URI relative to where the command ran, as scanners want it.
func sarifPlace(file string, line int) []sarifLocation {
	uri := (&url.URL{Path: filepath.ToSlash(file)}).String()
	return []sarifLocation{{sarifPhysical{sarifArtifact{uri}, sarifRegion{max(line, 1)}}}}
}

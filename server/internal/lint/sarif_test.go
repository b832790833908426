package lint

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// TestSARIF: what scanners get is valid by the standard's own schema (OASIS SARIF 2.1.0, errata 01), with findings, with
// faults, and with nothing at all.
func TestSARIF(t *testing.T) {
	var all []Source
	for _, name := range manifests(t) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, Source{name, text})
	}
	for name, sources := range map[string][]Source{
		"everything": all,
		"nothing":    nil,
		"empty":      {{"stdin", nil}}, // a fault that has no line
		"faults":     {{"a b/ü%.yaml", []byte("a: [")}, {"../c:d.yaml", []byte(bare1)}, {"stdin", []byte(bare1)}},
	} {
		t.Run(name, func(t *testing.T) {
			report := Check(sources, Options{})
			text, err := json.Marshal(report.SARIF("v1.2.3"))
			if err != nil {
				t.Fatal(err)
			}
			valid(t, text)
			var back struct {
				Runs []struct {
					Tool struct {
						Driver struct{ Rules []struct{ ID string } }
					}
					Results []struct {
						RuleID    string
						RuleIndex int
					}
				}
			}
			if err := json.Unmarshal(text, &back); err != nil {
				t.Fatal(err)
			}
			if got := len(back.Runs[0].Results); got != len(report.Findings) {
				t.Errorf("%d results of %d findings", got, len(report.Findings))
			}
			for _, r := range back.Runs[0].Results {
				if rule := back.Runs[0].Tool.Driver.Rules[r.RuleIndex]; rule.ID != r.RuleID {
					t.Errorf("%s points to the rule %s", r.RuleID, rule.ID)
				}
			}
		})
	}
}

func valid(t *testing.T, text []byte) {
	t.Helper()
	file, err := os.Open("testdata/sarif-2.1.0.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	schema, err := jsonschema.UnmarshalJSON(file)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("sarif.json", schema); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("sarif.json")
	if err != nil {
		t.Fatal(err)
	}
	log, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := compiled.Validate(log); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}

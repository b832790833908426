package fleet

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// docs/fleet.md has a row for each setting, in their order.
func TestThePageHasEverySetting(t *testing.T) {
	page, err := os.ReadFile("../../docs/fleet.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "\n## Settings\n")
	settings, _, _ := strings.Cut(rest, "\n## ")
	rows := regexp.MustCompile("(?m)^\\| `([A-Za-z]+)` \\|").FindAllStringSubmatch(settings, -1)
	config := reflect.TypeFor[Config]()
	for i := range max(len(rows), config.NumField()) {
		if i >= len(rows) || i >= config.NumField() || rows[i][1] != config.Field(i).Name {
			t.Fatalf("row %d: %v", i+1, rows)
		}
	}
}

package fleet

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/eiderhq/eider/breaker"
)

// What can't work is refused at once, by the name of its field.
func TestValidate(t *testing.T) {
	well := Config{Store: NewMemory(0), Key: "orders"}
	if err := well.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"Store":         func(c *Config) { c.Store = nil },
		"Key is":        func(c *Config) { c.Key = "" },
		"Key or Caller": func(c *Config) { c.Caller = "\xff" },
		"Caller is":     func(c *Config) { c.Caller = strings.Repeat("a", longestName+1) },
		"Quorum":        func(c *Config) { c.Quorum = MostCallers + 1 },
		"Least":         func(c *Config) { c.Least = -1 },
		"Successes":     func(c *Config) { c.Successes = mostWon + 1 },
		"FailureRate":   func(c *Config) { c.FailureRate = 1.01 },
		"SlowRate":      func(c *Config) { c.SlowRate = math.NaN() },
		"Window":        func(c *Config) { c.Window = KeepCounts + 1 },
		"OpenFor":       func(c *Config) { c.OpenFor = longestOpen + 1 },
		"MaxOpen":       func(c *Config) { c.MaxOpen = -1 },
		"Lease":         func(c *Config) { c.Lease = 2*time.Second - 1 },
		"Ramp":          func(c *Config) { c.Ramp = math.MaxInt64 },
		"Report":        func(c *Config) { c.Report = 10 * time.Second },
		"Retry":         func(c *Config) { c.Retry = longestTold + 1 },
		"Local":         func(c *Config) { c.Local = breaker.Config{FailureRate: 2} },
	} {
		c := well
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

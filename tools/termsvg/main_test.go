package main

import (
	"strings"
	"testing"
)

func TestColoursBecomeClassesAndTextIsEscaped(t *testing.T) {
	var out strings.Builder
	if err := draw(strings.NewReader("\x1b[1mdemo\x1b[0m  \x1b[32m█<&\x1b[0m\n\n"), &out, "a \"demo\""); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`class="b">demo</text>`, `class="g">█&lt;&amp;</text>`, `aria-label="a &#34;demo&#34;"`, `x="68.4"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Error("an escape is left")
	}
}

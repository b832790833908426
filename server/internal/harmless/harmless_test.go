package harmless

import (
	"strings"
	"testing"
)

func TestText(t *testing.T) {
	for from, want := range map[string]string{
		"":                        "",
		"orders-1 → größer, 日本 €": "orders-1 → größer, 日本 €",
		"\x1b[2Jgone":             "�[2Jgone",
		"\x1b]0;title\a":          "�]0;title�",
		"a\r\nb\tc\x00":           "a��b�c�",
		"\u009b31m":               "�31m",    // the same as ESC [, in one
		"abc\u202ecba":            "abc�cba", // what follows would be written from the right
		"bad \xff\xfe":            "bad ��",
		"\u00a0":                  "�",
	} {
		if got := Text(from); got != want {
			t.Errorf("%q is shown as %q, want %q", from, got, want)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("a\x1b[0m\xc3(")
	f.Fuzz(func(t *testing.T, from string) {
		text := Text(from)
		if strings.ContainsAny(text, "\x1b\a\r\n\u009b") || Text(text) != text {
			t.Errorf("%q is shown as %q", from, text)
		}
	})
}

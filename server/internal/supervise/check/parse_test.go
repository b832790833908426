package check

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"http://:8080/healthz":             "",
		"http://10.0.0.7:8080/a/b?deep=1":  "",
		"https://[::1]:8443/healthz":       "",
		"tcp://:8080":                      "",
		"tcp://db.internal:5432":           "",
		"grpc://:9090":                     "",
		"grpc://:9090/my.pkg.Orders":       "",
		"exec:/bin/probe --fast  -n\t3":    "exec:/bin/probe --fast -n 3",
		"HTTP://:8080":                     "http://:8080",
		"tcp://:8080/":                     "tcp://:8080",
		"":                                 "it doesn't say how to ask",
		"8080":                             "it doesn't say how to ask",
		"http:8080":                        "two slashes",
		"localhost:8080":                   `"localhost" is no way to ask`,
		"udp://:53":                        `"udp" is no way to ask`,
		"http://localhost/healthz":         "the port is missing",
		"http://:0/":                       `the port "0" is none`,
		"tcp://:65536":                     `the port "65536" is none`,
		"tcp://:http":                      "invalid port",
		"http://user:secret@:8080/":        "no user and no password",
		"http://:8080/#top":                "#",
		"tcp://:8080/healthz":              "write tcp://:8080, or http://:8080/healthz",
		"grpc://:9090/my.pkg.Orders/Check": "the service's name",
		"exec:":                            "the program is missing",
		`exec:sh -c "a b"`:                 "nothing is quoted",
		"http://:8080/\x1b[2J":             "invalid control character",
	} {
		c, err := Parse(text)
		if err != nil {
			if want == "" || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %q", text, err, want)
			}
			continue
		}
		if want == "" {
			want = text
		}
		if c.String() != want {
			t.Errorf("%q is read as %s, want %s", text, c, want)
		}
	}
}

// What was read reads the same again, and faults neither steer a terminal nor run on.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"http://:8080/healthz", "tcp://[::1]:1", "grpc://:9090/a.B", "exec:true a", "http://\x1b:1/", "http://%zz:1", "grpc://h:1/%2f"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(text)
		if err != nil {
			if s := err.Error(); len(s) > 4096+8*len(text) || strings.ContainsAny(s, "\x1b\r\n") {
				t.Errorf("%q: %q", text, s)
			}
			return
		}
		again, err := Parse(c.String())
		if err != nil || again.String() != c.String() {
			t.Errorf("%q is read as %q, and that as %v, %v", text, c, again, err)
		}
	})
}

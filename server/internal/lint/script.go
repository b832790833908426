package lint

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// commands are the simple commands of a shell's script, each its words without quotes and redirections. What branches,
// loops or holds a document within can't be told from its text, so that ok is false.
func commands(script string) (all [][]string, ok bool) {
	s := scanner{text: script}
	for s.at < len(s.text) {
		if !s.step() {
			return nil, false
		}
	}
	s.cut()
	for _, words := range s.all {
		if slices.Contains([]string{"if", "case", "while", "until", "for", "select", "function"}, words[0]) {
			return nil, false
		}
	}
	return s.all, true
}

// scanner takes a script apart.
type scanner struct {
	text  string
	at    int
	word  []byte
	open  bool // a word has begun, perhaps an empty one
	drop  bool // it is the target of a redirection
	words []string
	all   [][]string
}

// step takes what stands next, false if it doesn't end.
func (s *scanner) step() bool {
	b, rest := s.text[s.at], s.text[s.at+1:]
	s.at++
	switch {
	case b == '\\' && rest != "":
		s.at++
		if rest[0] != '\n' {
			s.add(rest[:1])
		}
	case b == '\'':
		return s.upTo(rest, strings.IndexByte(rest, '\''))
	case b == '"':
		return s.quoted(rest)
	case b == '`':
		return s.upTo(rest, strings.IndexByte(rest, '`'))
	case b == '$' && strings.HasPrefix(rest, "("):
		s.add("$")
		return s.upTo(rest, strings.IndexByte(rest, ')')) && s.add(")")
	case b == '#' && !s.open:
		line, _, _ := strings.Cut(rest, "\n")
		s.at += len(line)
	case b == ' ' || b == '\t' || b == '\r':
		s.end()
	case strings.IndexByte(";&|\n()", b) >= 0:
		s.cut()
	case b == '<' && strings.HasPrefix(rest, "<"):
		return false
	case b == '<' || b == '>':
		if strings.Trim(string(s.word), "0123456789") == "" {
			s.word, s.open = nil, false // the number of what is redirected
		}
		s.end()
		s.at += len(rest) - len(strings.TrimLeft(rest, "<>&| "))
		s.drop = true
	default:
		s.add(string(b))
	}
	return true
}

func (s *scanner) add(text string) bool {
	s.word, s.open = append(s.word, text...), true
	return true
}

// upTo takes what stands before an index, and the sign there.
func (s *scanner) upTo(rest string, index int) bool {
	if index < 0 {
		return false
	}
	s.add(rest[:index])
	s.at += index + 1
	return true
}

// quoted takes what stands between double quotes.
func (s *scanner) quoted(rest string) bool {
	s.add("")
	for i := 0; i < len(rest); i++ {
		switch {
		case rest[i] == '"':
			s.at += i + 1
			return true
		case rest[i] == '\\' && i+1 < len(rest) && strings.IndexByte("$`\"\\\n", rest[i+1]) >= 0:
			i++
		}
		s.add(rest[i : i+1])
	}
	return false
}

func (s *scanner) end() {
	group := len(s.words) == 0 && slices.Contains([]string{"{", "}", "!", "exec", "nohup", "command"}, string(s.word))
	if s.open && !s.drop && !group && !(len(s.words) == 0 && assigns.Match(s.word)) {
		s.words = append(s.words, string(s.word))
	}
	s.word, s.drop, s.open = nil, s.drop && !s.open, false
}

func (s *scanner) cut() {
	if s.end(); len(s.words) > 0 {
		s.all = append(s.all, s.words)
	}
	s.words = nil
}

var assigns = regexp.MustCompile(`^[A-Za-z_]\w*=`)

// call is a request over HTTP that a hook makes, as far as its words say it.
type call struct {
	program     string
	method, url string
	kind        string // Content-Type
	body        string
	lasts       time.Duration // at most, 0 if nothing bounds it
	after       time.Duration // what the hook has slept before
}

// valued are options that take a value: of curl, and of wget, GNU's and busybox'.
var valued = map[string]string{
	"curl": "AbcCdDeEFHKmoPQrtTuUwxXyYz", "wget": "oOUTPYte",
	"curl --": "request data data-raw data-ascii data-binary data-urlencode json header max-time connect-timeout url upload-file output user user-agent retry " +
		"retry-delay retry-max-time proxy cacert capath cert key resolve unix-socket interface write-out cookie cookie-jar referer form config noproxy connect-to oauth2-bearer",
	"wget --": "post-data post-file method body-data body-file header timeout tries output-document output-file user-agent user password waitretry",
}

// readCall reads the words of curl or wget.
func readCall(program string, words []string) call {
	c := call{program: program}
	var data []string
	times := 1
	c.options(words, func(name, value string) {
		switch name {
		case "X", "request", "method":
			c.method = strings.ToUpper(value)
		case "d", "data", "data-raw", "data-ascii", "data-binary", "data-urlencode", "post-data", "body-data":
			data = append(data, value)
		case "json":
			data, c.kind = append(data, value), "application/json"
		case "F", "form", "post-file", "body-file", "K", "config":
			data = append(data, "@")
		case "H", "header":
			if key, kind, ok := strings.Cut(value, ":"); ok && strings.EqualFold(strings.TrimSpace(key), "content-type") {
				c.kind = strings.TrimSpace(kind)
			}
		case "m", "max-time":
			c.lasts, _ = duration(value, time.Second)
		case "T", "upload-file":
			if program == "curl" {
				c.method, data = "PUT", append(data, "@")
			}
		case "G", "get":
			c.method = "GET"
		case "I", "head":
			c.method = "HEAD"
		case "retry":
			n, _ := strconv.Atoi(value)
			times = 1 + min(max(n, 0), 100)
		case "url", "":
			if c.url == "" {
				c.url = value
			}
		}
	})
	c.body = strings.Join(data, "&")
	if c.method == "" && len(data) > 0 {
		c.method = "POST"
	}
	if c.method == "" {
		c.method = "GET"
	}
	c.lasts = min(c.lasts*time.Duration(times), most)
	return c
}

// options goes through a command's words: each option with its value, and what is none under the name "".
func (c *call) options(words []string, each func(name, value string)) {
	next := func(i int) string {
		if i+1 < len(words) {
			return words[i+1]
		}
		return ""
	}
	for i := 0; i < len(words); i++ {
		word := words[i]
		long, isLong := strings.CutPrefix(word, "--")
		switch {
		case isLong:
			name, value, within := strings.Cut(long, "=")
			if !within && slices.Contains(strings.Fields(valued[c.program+" --"]), name) {
				value = next(i)
				i++
			}
			each(name, value)
		case strings.HasPrefix(word, "-") && len(word) > 1:
			for j := 1; j < len(word); j++ {
				name := word[j : j+1]
				if !strings.Contains(valued[c.program], name) {
					each(name, "")
					continue
				}
				value := word[j+1:]
				if value == "" {
					value = next(i)
					i++
				}
				each(name, value)
				break
			}
		default:
			each("", word)
		}
	}
}

// readCalls reads what a hook does besides to sleep.
func (p *pause) readCalls(command []string) {
	all, ok := [][]string{command}, true
	if slices.Contains(shells, p.needs) {
		script, given := scriptOf(command)
		if all, ok = commands(script); !given || !ok {
			p.unread = short(strings.Join(command, " "))
			return
		}
	}
	var slept time.Duration
	for _, words := range all {
		words, bound := bounded(words)
		switch name := program(words[0]); {
		case name == "sleep":
			found := sleeps.FindStringSubmatch(strings.Join(words, " "))
			if found == nil {
				p.unread = short(strings.Join(words, " "))
				continue
			}
			d, _ := duration(found[1]+cmp.Or(found[2], "s"), time.Second)
			slept = min(slept+d, most)
		case name == "curl" || name == "wget":
			c := readCall(name, words[1:])
			c.after = slept
			if bound > 0 {
				c.lasts = bound
			}
			p.calls = append(p.calls, c)
		case !slices.Contains(idle, name) && p.unread == "":
			p.unread = short(words[0])
		}
	}
}

// idle are commands that tell nobody anything.
var idle = []string{"echo", "printf", ":", "true", "false", "date", "test", "[", "set", "cd", "export", "logger", "touch", "mkdir", "rm", "cat",
	"kill", "killall", "pkill", "nginx", "exit", "wait", "ps", "sync"}

// bounded takes timeout away from the command that it runs, and says how long that lasts at most.
func bounded(words []string) ([]string, time.Duration) {
	if program(words[0]) != "timeout" {
		return words, 0
	}
	for i := 1; i+1 < len(words); i++ {
		if d, ok := duration(words[i], time.Second); ok && !slices.Contains([]string{"-k", "-s"}, words[i-1]) {
			return words[i+1:], d
		}
	}
	return words, 0
}

// lasts is how long the calls of a hook may take.
func (p pause) lasts() (sum time.Duration) {
	for _, c := range p.calls {
		sum = min(sum+c.lasts, most)
	}
	return sum
}

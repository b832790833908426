package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// serviceLabel is what a slice has of its Service.
const serviceLabel = "kubernetes.io/service-name"

// slice is what is read of an EndpointSlice (discovery.k8s.io/v1).
type slice struct {
	Metadata struct {
		Name, ResourceVersion string
		Labels                map[string]string
	}
	Endpoints []endpoint
}

type endpoint struct {
	Addresses  []string
	Conditions struct{ Ready, Serving, Terminating *bool } // nil: true, true, false
	TargetRef  *struct{ Kind, Name string }
}

// status is the API's word on what it doesn't do.
type status struct {
	Kind, Message, Reason string
	Code                  int
}

// event is one of a watch.
type event struct {
	Type   string
	slice  slice
	status status
}

// ration is what one value, a slice or an event, may take of an answer: the API stores no more than 1.5 MiB of one, as
// protobuf, and a thousand endpoints are less than 1 MiB of JSON.
const ration = 4 << 20

// errShape is what JSON is that isn't what was asked for.
var errShape = errors.New("not what a list of EndpointSlices or a watch looks like")

var errRation = errors.New("a value is too large: a slice or an event has 4 MiB at most")

// rationed is a reader that gives out so much, until it is filled again.
type rationed struct {
	from io.Reader
	left int
}

func (r *rationed) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, errRation
	}
	n, err := r.from.Read(p[:min(len(p), r.left)])
	r.left -= n
	return n, err
}

// page is what a list says beside its items.
type page struct{ version, next string }

// readList reads a list, one item at a time: only one is in memory, however many there are.
func readList(body io.Reader, ration int, each func(slice) error) (p page, err error) {
	in := &rationed{body, ration}
	d := json.NewDecoder(in)
	kind := ""
	err = object(d, func(key string) error {
		in.left = ration
		switch key {
		case "kind":
			return d.Decode(&kind)
		case "metadata":
			var meta struct{ ResourceVersion, Continue string }
			err := d.Decode(&meta)
			p = page{meta.ResourceVersion, meta.Continue}
			return err
		case "items":
			return array(d, func() error {
				in.left = ration
				var s slice
				if err := d.Decode(&s); err != nil {
					return err
				}
				return each(s)
			})
		}
		var skipped json.RawMessage
		return d.Decode(&skipped)
	})
	if err == nil && (kind != "EndpointSliceList" || p.version == "") {
		err = fmt.Errorf("%w: kind %.60q, resourceVersion %.60q", errShape, kind, p.version)
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return p, err
}

// object reads one, calling field after each name.
func object(d *json.Decoder, field func(key string) error) error {
	if err := expect(d, '{'); err != nil {
		return err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		if err := field(key.(string)); err != nil { // what More is true of begins with a name, or Token fails
			return err
		}
	}
	return expect(d, '}')
}

// array reads one, or the null that stands for none.
func array(d *json.Decoder, item func() error) error {
	first, err := d.Token()
	if err != nil || first == nil {
		return err
	}
	if first != json.Delim('[') {
		return fmt.Errorf("%w: items are %.40v", errShape, first)
	}
	for d.More() {
		if err := item(); err != nil {
			return err
		}
	}
	return expect(d, ']')
}

func expect(d *json.Decoder, want json.Delim) error {
	got, err := d.Token()
	if err == nil && got != want {
		err = fmt.Errorf("%w: %.40v stands where %s is expected", errShape, got, want)
	}
	return err
}

// readWatch reads events until the stream ends, which is nothing wrong.
func readWatch(body io.Reader, ration int, each func(event) error) error {
	in := &rationed{body, ration}
	d := json.NewDecoder(in)
	for {
		in.left = ration
		var raw struct {
			Type   string
			Object json.RawMessage
		}
		if err := d.Decode(&raw); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		e := event{Type: raw.Type}
		var into any = &e.slice
		if e.Type == "ERROR" {
			into = &e.status
		}
		if err := json.Unmarshal(raw.Object, into); err != nil {
			return fmt.Errorf("an event of type %.40q: %w", e.Type, err)
		}
		if err := each(e); err != nil {
			return err
		}
	}
}

// kind is what becomes of a trouble.
type kind int

const (
	away    kind = iota // nobody answers, or says that he can't now
	strange             // what answers isn't the API, or not one that is known here
	denied              // it says that this isn't allowed
	missing             // it has no such resource
	expired             // the list or the watch is too old: list anew
	misset              // the settings are wrong
)

// trouble is why the API couldn't be asked.
type trouble struct {
	kind  kind
	err   error
	after time.Duration // the API asks for so much patience; 0: it doesn't
	role  bool          // what helps is a Role
}

func (t *trouble) Error() string { return t.err.Error() }
func (t *trouble) Unwrap() error { return t.err }

// trouble is what a status comes to; code is that of HTTP, 0 where it came in an event.
func (s status) trouble(code int) *trouble {
	if code == 0 {
		code = s.Code
	}
	t := &trouble{kind: strange, role: code == http.StatusForbidden}
	switch {
	case code == http.StatusGone || s.Reason == "Expired":
		t.kind = expired
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		t.kind = denied
	case code == http.StatusNotFound:
		t.kind = missing
	case code == http.StatusTooManyRequests || code >= 500:
		t.kind = away
	}
	said := strings.TrimSpace(s.Message)
	if said == "" {
		said = "without a word that can be read"
	}
	t.err = fmt.Errorf("the API answers %d: %.300s", code, said)
	return t
}

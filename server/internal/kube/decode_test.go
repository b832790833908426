package kube

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// few is the ration of these tests.
const few = 64 << 10

const aList = `{"kind":"EndpointSliceList","apiVersion":"discovery.k8s.io/v1","metadata":{"resourceVersion":"7","continue":"c"},"items":[
{"metadata":{"name":"a","resourceVersion":"3","labels":{"kubernetes.io/service-name":"orders"}},"addressType":"IPv4",
 "endpoints":[{"addresses":["10.0.0.9"],"conditions":{},"targetRef":{"kind":"Pod","name":"a-1"}},{"addresses":["10.0.0.8"],"conditions":{"ready":null,"serving":false}}],"ports":[{"port":80}]},
{"metadata":{"name":"b"},"endpoints":null}]}`

const aWatch = `{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"8"},"endpoints":[{"addresses":["10.0.0.9"],"conditions":{"ready":false}}]}}
{"type":"BOOKMARK","object":{"kind":"EndpointSlice","metadata":{"resourceVersion":"9","creationTimestamp":null},"endpoints":null}}
{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}`

func TestReadList(t *testing.T) {
	for name, in := range map[string]io.Reader{"whole": strings.NewReader(aList), "byte by byte": iotest.OneByteReader(strings.NewReader(aList)),
		"items first": strings.NewReader(`{"items":` + aList[strings.Index(aList, "[\n"):len(aList)-1] + `,"metadata":{"resourceVersion":"7","continue":"c"},"kind":"EndpointSliceList"}`)} {
		var got []slice
		p, err := readList(in, few, func(s slice) error { got = append(got, s); return nil })
		if err != nil || p != (page{"7", "c"}) || len(got) != 2 || got[0].Metadata.Labels[serviceLabel] != "orders" || len(got[0].Endpoints) != 2 || got[1].Metadata.Name != "b" {
			t.Errorf("%s: %+v, %+v, %v", name, p, got, err)
		}
	}
	// Items that are null are none, and what each says ends the list.
	if _, err := readList(strings.NewReader(`{"kind":"EndpointSliceList","metadata":{"resourceVersion":"7"},"items":null}`), few, nil); err != nil {
		t.Error(err)
	}
	stop := errors.New("stop")
	if _, err := readList(strings.NewReader(aList), few, func(slice) error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
	if _, err := readList(iotest.TimeoutReader(iotest.HalfReader(strings.NewReader(aList))), few, func(slice) error { return nil }); !errors.Is(err, iotest.ErrTimeout) {
		t.Error(err)
	}
}

func TestReadWatch(t *testing.T) {
	for _, in := range []io.Reader{strings.NewReader(aWatch), iotest.OneByteReader(strings.NewReader(aWatch)), strings.NewReader(strings.ReplaceAll(aWatch, "\n", ""))} {
		var got []event
		err := readWatch(in, few, func(e event) error { got = append(got, e); return nil })
		if err != nil || len(got) != 3 || got[0].slice.Metadata.ResourceVersion != "8" || *got[0].slice.Endpoints[0].Conditions.Ready || got[1].Type != "BOOKMARK" ||
			got[1].slice.Metadata.ResourceVersion != "9" || got[2].status.Code != 410 {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if err := readWatch(strings.NewReader(aWatch[:200]), few, func(event) error { return nil }); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("half an event: %v", err)
	}
}

// A stream is bounded by what one value may have, not by how long it runs.
func TestRations(t *testing.T) {
	long := strings.Repeat(`{"type":"ADDED","object":{"metadata":{"name":"`+strings.Repeat("a", few/4)+`","resourceVersion":"1"}}}`+"\n", 12)
	n := 0
	if err := readWatch(strings.NewReader(long), few, func(event) error { n++; return nil }); err != nil || n != 12 {
		t.Errorf("%d events, %v", n, err)
	}
	for name, head := range map[string]string{"a name": `{"type":"`, "an object": `{"type":"ADDED","object":{"metadata":{"name":"`, "blanks": "", "siblings": `{"object":[[],`} {
		fill := "a"
		switch name {
		case "blanks":
			fill = " "
		case "siblings":
			fill = "[]," // of what is nested encoding/json has enough by itself
		}
		if err := readWatch(io.MultiReader(strings.NewReader(head), io.LimitReader(endlessly(fill), 4*few)), few, func(event) error { return nil }); !errors.Is(err, errRation) {
			t.Errorf("%s without an end: %v", name, err)
		}
	}
	if _, err := readList(io.MultiReader(strings.NewReader(`{"more":`), io.LimitReader(endlessly(" "), 4*few)), few, nil); !errors.Is(err, errRation) {
		t.Errorf("a field without an end: %v", err)
	}
}

type endlessly string

func (e endlessly) Read(p []byte) (int, error) {
	n := max(len(p)/len(e), 1) * len(e) // whole ones, so that the next begins where this ends
	return copy(p, strings.Repeat(string(e), n/len(e))), nil
}

func FuzzList(f *testing.F) {
	f.Add(aList)
	f.Add(`{"kind":"EndpointSliceList","metadata":{"resourceVersion":"7"},"items":null}`)
	f.Add(`{"items":[[]],"":{}}`)
	f.Fuzz(func(t *testing.T, text string) {
		var whole, split []slice
		p, err := readList(strings.NewReader(text), few, func(s slice) error { whole = append(whole, s); return nil })
		again, errAgain := readList(iotest.OneByteReader(strings.NewReader(text)), few, func(s slice) error { split = append(split, s); return nil })
		if p != again || (err == nil) != (errAgain == nil) || len(whole) != len(split) {
			t.Errorf("%q: %v, %v by bytes", text, err, errAgain)
		}
		if err == nil && p.version == "" {
			t.Errorf("%q: no version", text)
		}
		look(whole)
	})
}

func FuzzWatch(f *testing.F) {
	f.Add(aWatch)
	f.Add(`{"type":"DELETED","object":{"metadata":{"name":"a","resourceVersion":"8"}}}`)
	f.Add(`{"type":"ADDED"}{"object":null}`)
	f.Fuzz(func(t *testing.T, text string) {
		fo := follower{settings: settings{client: &client{}, pod: identity{name: "a-1", given: true}}}
		versions := ""
		err := readWatch(strings.NewReader(text), few, func(e event) error {
			if err := fo.apply(e); err != nil {
				return err
			}
			versions += fo.version
			fo.judge()
			return nil
		})
		var split int
		errAgain := readWatch(iotest.OneByteReader(strings.NewReader(text)), few, func(event) error { split++; return nil })
		if err == nil && errAgain != nil {
			t.Errorf("%q: %v by bytes", text, errAgain)
		}
		if err == nil && split > 0 && versions == "" {
			t.Errorf("%q: events, and no version to go on from", text)
		}
	})
}

func look(all []slice) {
	var seen sight
	for _, s := range all {
		d, ours := identity{name: "a-1", ip: "10.0.0.9"}.in(s, "")
		_ = seen.put(s.Metadata.Name, d, ours) // there may be too many
	}
	seen.judge()
}

// Package kube answers: is this pod out of its Services' endpoints, and how long may it still be called?
//
// It is `eider leave --kube`, a preStop hook where there is no registry: it watches the EndpointSlices of the pod's
// Services through the API until the pod isn't ready in any of them, and stays for as long as the nodes and the load
// balancers may take from there on. What a pod can see is what the API has, not what the nodes have made of it: the
// rest is derived, by package window. Where the API can't be asked, all of it is.
//
// It speaks plain HTTPS, and needs of the API one resource, listed and watched: docs/decisions has why.
package kube

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/eiderhq/eider/retry"
)

// Leave pauses until the pod may be told to end. The error is of the settings; the pause has been kept nevertheless where
// they are a pod's, for a hook that ends at once costs requests.
func (c Config) Leave(ctx context.Context) (Report, error) {
	set, fault := c.resolve()
	if fault != nil && !set.inPod {
		return Report{Outcome: Misset}, fault
	}
	p := &pause{terms: set.terms, pod: set.pod.said()}
	if fault != nil {
		p.heard(news{fault: &trouble{kind: misset, err: errors.New("the settings are wrong")}}, 0)
		if set.Progress != nil {
			set.Progress(fault.Error())
		}
	}
	begun := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	heard, ended := make(chan news), make(chan struct{})
	go func() {
		defer close(ended)
		if set.client != nil {
			(&follower{settings: set, tell: heard}).run(ctx)
			set.client.http.CloseIdleConnections()
		}
	}()
	r := p.keep(ctx, heard, func() time.Duration { return time.Since(begun) }, set.Progress)
	cancel()
	<-ended
	if fault != nil {
		r.Outcome = Misset
	}
	return r, fault
}

// keep waits until the pause is over, or somebody ends it.
func (p *pause) keep(ctx context.Context, heard <-chan news, now func() time.Duration, say func(string)) Report {
	said, role := "", false
	for {
		end := p.end()
		if now() >= end.at {
			return p.report(now(), end.by)
		}
		if text := p.String(); text != said && say != nil && (p.viewed || p.fault != nil) {
			say(text)
			said = text
		}
		if !role && p.fault != nil && p.fault.role && say != nil {
			say("what lets the pod ask, to be applied in its namespace:\n" + Role)
			role = true
		}
		t := time.NewTimer(end.at - now())
		select {
		case n := <-heard:
			p.heard(n, now())
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return p.report(now(), bySignal)
		}
		t.Stop()
	}
}

// news is what a follower has to tell: what it sees, or why it doesn't.
type news struct {
	view  view
	fault *trouble // nil: view holds
}

// follower keeps an eye on the slices.
type follower struct {
	settings
	sight
	tell    chan<- news
	version string    // where the next watch begins; "" is with a list
	looked  time.Time // when the API last said how things stand
}

// Bounds on what one looks at.
const (
	steady = time.Second     // a watch that has lived for so long was none of those that fail at once
	quiet  = 2 * time.Second // a watch that says nothing for so long is doubted: it may be dead, and a list tells
	answer = 3 * time.Second // a request that isn't answered for so long never is
)

// run lists and watches until ctx ends, and tries again whatever happens: what is forbidden may be allowed in a second.
func (f *follower) run(ctx context.Context) {
	for attempt := 0; ; attempt++ {
		begun := time.Now()
		wait, err := time.Duration(0), f.round(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			t := f.trouble(err)
			if t.kind == expired || t.kind == strange {
				f.version = ""
			}
			if t.kind != expired { // which the server is meant to say
				f.say(ctx, news{fault: t})
			}
			if wait = t.after; t.kind != away && t.kind != expired {
				wait = max(wait, steady) // nobody mends that within milliseconds
			}
		}
		if time.Since(begun) >= steady {
			attempt = 0
		}
		pace := retry.Backoff{Max: steady}.Delay(attempt, rand.Float64())
		if wait > 0 {
			pace = retry.Late(wait, 0.25, rand.Float64())
		}
		t := time.NewTimer(pace)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
	}
}

// round lists, unless it knows where to go on and has heard something lately, and watches until the watch ends. So it is a poll
// where watches don't work.
func (f *follower) round(ctx context.Context) error {
	if f.version == "" || time.Since(f.looked) >= quiet {
		version, err := f.list(ctx)
		if err != nil {
			return err
		}
		f.version, f.looked = version, time.Now()
		f.say(ctx, news{view: f.judge()})
	}
	return f.watch(ctx)
}

// list reads all pages. A page that has expired begins the list anew, as a watch does.
func (f *follower) list(ctx context.Context) (version string, err error) {
	clear(f.sight.slices) // who has named the pod is remembered
	for next := ""; ; {
		page, err := f.client.list(ctx, f.selector(), next, f.put)
		if err != nil {
			return "", err
		}
		if version == "" {
			version = page.version
		}
		if next = page.next; next == "" {
			return version, nil
		}
	}
}

// put takes a slice in, as far as it concerns this pod.
func (f *follower) put(s slice) error {
	digest, ours := f.pod.in(s, f.client.local())
	if !f.asked(digest.service) {
		return nil
	}
	return f.sight.put(s.Metadata.Name, digest, ours)
}

// watch follows the changes from f.version on.
func (f *follower) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	doubt := time.AfterFunc(quiet, func() { cancel(errQuiet) })
	defer doubt.Stop()
	err := f.client.watch(ctx, f.selector(), f.version, func(e event) error {
		doubt.Reset(quiet)
		if err := f.apply(e); err != nil {
			return err
		}
		f.looked = time.Now()
		f.say(ctx, news{view: f.judge()})
		return nil
	})
	if errors.Is(context.Cause(ctx), errQuiet) {
		return nil
	}
	return err
}

// errQuiet ends a watch that says nothing.
var errQuiet = errors.New("the watch is quiet")

// apply takes one event in.
func (f *follower) apply(e event) error {
	switch e.Type {
	case "ADDED", "MODIFIED":
		if err := f.put(e.slice); err != nil {
			return err
		}
	case "DELETED":
		f.drop(e.slice.Metadata.Name)
	case "BOOKMARK":
	case "ERROR":
		return e.status.trouble(0)
	default:
		return &trouble{kind: strange, err: fmt.Errorf("the API sends an event of type %.40q", e.Type)}
	}
	if e.slice.Metadata.ResourceVersion == "" {
		return &trouble{kind: strange, err: fmt.Errorf("the API sends an event (%s) without a resourceVersion", e.Type)}
	}
	f.version = e.slice.Metadata.ResourceVersion
	return nil
}

func (f *follower) say(ctx context.Context, n news) {
	select {
	case f.tell <- n:
	case <-ctx.Done():
	}
}

package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eiderhq/eider/breaker"
)

func ExampleBreaker_Do() {
	b := breaker.New(breaker.Config{Name: "payments", Consecutive: 3, OpenFor: time.Minute})
	charge := func(context.Context) error { return errors.New("no answer") }
	for range 4 {
		err := b.Do(context.Background(), charge)
		if r := new(breaker.Rejected); errors.As(err, &r) {
			fmt.Println("not made:", r.Name, "is", r.State, "by", r.Rule, r.Count, "of", r.Of)
			return
		}
		fmt.Println("made:", err)
	}
	// Output:
	// made: no answer
	// made: no answer
	// made: no answer
	// not made: payments is open by failures in a row 3 of 3
}

func ExampleCall() {
	b := breaker.New(breaker.Config{})
	n, err := breaker.Call(context.Background(), b, func(context.Context) (int, error) { return 42, nil })
	fmt.Println(n, err)
	// Output: 42 <nil>
}

// A permit is for calls that don't fit into one function. Every one is ended once.
func ExampleBreaker_Allow() {
	ctx := context.Background()
	b := breaker.New(breaker.Config{})
	p, err := b.Allow()
	if err != nil {
		fmt.Println(errors.Is(err, breaker.ErrRejected))
		return
	}
	err = context.Canceled // as the call returned it
	p.Done(ctx, err)
	fmt.Println(b.Snapshot().Failures, "failure of", b.Snapshot().Total)
	// Output: 1 failure of 1
}

// What an error says of the target is the caller's to know: one who asked wrongly learns nothing of it.
func ExampleConfig_classify() {
	errNotFound := errors.New("not found")
	b := breaker.New(breaker.Config{Classify: func(err error) breaker.Outcome {
		if errors.Is(err, errNotFound) {
			return breaker.Success
		}
		return breaker.Failure
	}})
	for range 20 {
		_ = b.Do(context.Background(), func(context.Context) error { return errNotFound })
	}
	fmt.Println(b.State())
	// Output: closed
}

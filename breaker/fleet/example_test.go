package fleet_test

import (
	"context"
	"fmt"

	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/breaker/fleet"
)

func Example() {
	ctx := context.Background()
	store := fleet.NewMemory(0) // of one process; or a registry's Fleet(), Redis, etcd
	shared, err := fleet.New(fleet.Config{Store: store, Key: "payments"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer shared.Close()

	order, err := fleet.Call(ctx, shared, func(context.Context) (string, error) { return "charged", nil })
	fmt.Println(order, err)

	permit, err := shared.Allow(ctx) // or by hand
	if err != nil {
		fmt.Println(err)
		return
	}
	if !permit.Live() { // just before the call: a trial's time may be over
		fmt.Println(permit.Late())
		return
	}
	permit.Done(ctx, nil)

	record, err := fleet.Force(ctx, store, "payments", breaker.ForcedOpen) // an operator's word, for all callers
	fmt.Println(record.State, err)
	// Output:
	// charged <nil>
	// forced open <nil>
}

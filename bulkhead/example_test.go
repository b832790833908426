package bulkhead_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/eiderhq/eider/bulkhead"
)

func Example() {
	b := bulkhead.New(bulkhead.Config{Name: "orders", Limit: 1})
	err := b.Do(context.Background(), func(ctx context.Context) error {
		// While this call is in flight there is no room for another.
		_, err := bulkhead.Call(ctx, b, func(context.Context) (string, error) { return "never made", nil })
		return err
	})
	fmt.Println(errors.Is(err, bulkhead.ErrFull))
	fmt.Println(err)
	// Output:
	// true
	// bulkhead "orders" is full: 1 of 1 calls in flight, 0 waiting; come back in 100ms, or raise Limit
}

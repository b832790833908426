// Command watch prints who serves orders, as it changes. It observes: no drain waits for it.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/eiderhq/eider/registry"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	reg := registry.Open(registry.Config{}) // EIDER_ADDR, else 127.0.0.1:8762
	defer reg.Close()

	for view, err := range reg.Watch(ctx, "orders") {
		if err != nil {
			log.Print(err) // it goes on by itself
			continue
		}
		for _, in := range view.Instances {
			fmt.Println(in.Key, in.Status, in.Address, in.Suspicion)
		}
	}
}

// Command call posts to a service by its name; whoever of it is leaving is let go of in time.
package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"

	"github.com/eiderhq/eider/eiderhttp"
	"github.com/eiderhq/eider/registry"
)

func main() {
	reg := registry.Open(registry.Config{}) // EIDER_ADDR, else 127.0.0.1:8762
	defer reg.Close()

	hc := &http.Client{Transport: &eiderhttp.Transport{Registry: reg}}
	resp, err := hc.Post("http://orders/pay", "application/json", strings.NewReader(`{"amount":1299}`))
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s %s", resp.Status, answer)
}

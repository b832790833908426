// Command program is a program as people write it: it serves POSTs, and on SIGTERM it finishes what it has begun. It knows
// nothing of Eider and imports nothing of it.
//
//	program ADDRESS TIME    TIME is how long an answer takes
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// exit is what the program ends with when all is well, so that nobody takes another's end for it.
const exit = 7

func main() {
	work, err := time.ParseDuration(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /world", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, world()) })
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-time.After(work)
		io.WriteString(w, "paid\n")
	})
	srv := &http.Server{Addr: os.Args[1], Handler: mux}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	over := make(chan error, 1)
	go func() {
		<-ctx.Done()
		bounded, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		over <- srv.Shutdown(bounded)
	}()
	if err := srv.ListenAndServe(); err != http.ErrServerClosed {
		log.Fatal(err)
	}
	if err := <-over; err != nil {
		log.Fatal(err)
	}
	os.Exit(exit)
}

// world tells what there is: whose child it is, all files, and whether one more can be made.
func world() string {
	text := fmt.Sprintln("parent", os.Getppid())
	all, err := os.ReadDir("/")
	if err != nil {
		return err.Error()
	}
	for _, entry := range all {
		text += fmt.Sprintln("/"+entry.Name(), entry.IsDir())
	}
	return text + fmt.Sprintln(os.WriteFile("/new", nil, 0o600))
}

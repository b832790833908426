// Package drain answers: how does a server leave without losing a request?
//
// [Serve] runs an *http.Server (HTTP/1, HTTP/2 over TLS, h2c) and, when its context ends, takes it
// down in the one order that loses nothing:
//
//  1. leave: the registry marks the instance DRAINING; it goes on serving, and tells every caller in
//     band: Eider-Leaving on each answer, Connection: close on each HTTP/1 answer;
//  2. pause: serving all the while, until every caller has let go (the barrier), or the bound has passed;
//  3. the accept queue is emptied, then the listener closed; idle HTTP/2 connections get GOAWAY;
//  4. what is in flight finishes, under a deadline, streams and upgraded connections under a shorter one; what
//     overruns it is cut and named;
//  5. the registry is told LEFT, and a [Report] says how it went.
//
// [ServeListener] does the same for any accept loop, [Beside] for a program that another process serves.
//
// Nothing here waits without a bound: with the registry away or hung, the pause is the bound.
package drain

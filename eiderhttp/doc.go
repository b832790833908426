// Package eiderhttp calls services by name over net/http: a RoundTripper that picks an instance for each request,
// keeps a pool of connections per instance, retries elsewhere what may be sent again, and lets go of an instance
// that leaves before it has left.
//
//	reg := registry.Open(registry.Config{})
//	defer reg.Close()
//	hc := &http.Client{Transport: &eiderhttp.Transport{Registry: reg}}
//	resp, err := hc.Post("http://orders/pay", "application/json", body)
//
// # Hosts
//
// The host of a URL is the name of a service, in any case; its address and port come from the registry.
// http://_admin.orders/ calls the port that instances of orders have registered as admin (a URL has no other place
// for a port's name). https://orders/ speaks TLS to the instance, whose certificate must be for "orders" unless
// Base.TLSClientConfig.ServerName says otherwise. What can't be a service (an IP address, localhost, a host with a
// port number other than its scheme's own) fails, unless [Transport.Unknown] takes it.
//
// # What is sent again
//
// A request is sent to another instance, never to one that it has already tried while there is another, at most
// [Transport.Tries] times in all. Refused dials don't count (when most of a fleet is killed at once, the rest is
// found), up to sixteen:
//
//	what happened                                          who is sent again       counts against the budget
//	the dial was refused, or failed otherwise              any request             no
//	no connection within ConnectTimeout                    any request             yes
//	not one byte was written (a stale connection)          any request             no
//	HTTP/2 GOAWAY that says the request wasn't processed   any request             no
//	HTTP/2 REFUSED_STREAM                                  any request             yes
//	421: the address belongs to somebody else              any request             no
//	cut, reset or timed out after bytes were written       repeatable requests     yes
//	the answer's header has come, whatever its status      nobody                  -
//
// Repeatable is what RFC 9110 §9.2.2 calls idempotent (GET, HEAD, OPTIONS, TRACE, PUT, DELETE) and any request
// with an Idempotency-Key or X-Idempotency-Key; [Transport.Repeatable] says otherwise. A request with a body must
// have GetBody, as http.NewRequest sets it for bytes and strings, unless its body wasn't read yet: nothing is
// buffered here. net/http's own silent retries are kept from happening, since they would dial the instance that
// has just failed and hide that they did.
//
// # What counts against an instance
//
// Each instance has a breaker in each Transport (see package roster). A refused dial opens it at once, two failures in a row
// do, and so does half of the last 20 requests failing, or their answers being slow to begin, those that are still waited for
// included. An answer is a success unless [Transport.Failed] says otherwise (502, 503, 504), and a failure if its body breaks
// off. The caller's own cancel says nothing, nor does the caller's deadline if it left the try less than [Transport.Slow].
// An answer's body may take as long as it likes, and so may the answer to a long poll ([Transport.Waits]).
package eiderhttp

// Package eidergrpc calls services by name over gRPC: a channel that picks an instance for each call, keeps a connection
// per instance, tries elsewhere what may be tried again, and lets go of an instance that leaves before it has left.
//
//	reg := registry.Open(registry.Config{})
//	defer reg.Close()
//	cc, err := eidergrpc.NewClient("eider:///orders", reg, grpc.WithTransportCredentials(insecure.NewCredentials()))
//	orders := pb.NewOrdersClient(cc)
//
// It is an ordinary *grpc.ClientConn: a resolver, a balancing policy and an interceptor of each kind, over package
// roster, which alone knows who may be picked and counts who was.
//
// # What is tried again
//
// A call is tried at another instance, never at one that it has already tried while there is another, at most
// [Config.Tries] times in all. Refused dials don't count (when most of a fleet is killed at once, the rest is
// found), up to sixteen:
//
//	what happened                                            what is tried again      counts against the budget
//	the dial was refused, or failed otherwise                any call                 no
//	no connection within ConnectTimeout                      any call                 yes
//	the connection ended before the stream was opened        any call                 no
//	GOAWAY that says the stream wasn't processed             any call                 no
//	REFUSED_STREAM                                           any call                 yes
//	eider-misdirected: the address belongs to somebody else  any call                 no
//	the connection ended before the answer                   [Config.Idempotent]      yes
//	no answer to a trial within three times Slow             [Config.Idempotent]      no
//	a status that the instance has sent, whatever it is      nothing                  -
//
// A stream is tried again until its first answer, as long as it has sent no more than sixteen messages. Until then SendMsg
// says nothing of a stream that has ended; RecvMsg does.
//
// A call that waits for ready (grpc.WaitForReady) waits until somebody can be called.
//
// A trial is what the registry asks for when an instance has hung: one unary call of a method that [Config.Idempotent] names goes
// there. No other call is given up for another while it hangs.
//
// # What counts against an instance
//
// Each instance has a breaker in each channel (see package roster). A refused dial opens it at once, two failures in a row
// do, and so does half of the last 20 calls failing, or being slow, unary ones that haven't returned yet included. A status
// that it has sent is a success unless [Config.Failed] says otherwise: UNAVAILABLE, and DEADLINE_EXCEEDED after
// [Config.Slow]. The caller's own cancel says nothing, nor does the caller's deadline if it left the try less than Slow.
// Streams, and methods that [Config.Waits] names, may last as long as they like.
package eidergrpc

package eidergrpc

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errMisdirected is what a call for somebody else ends with. The code is the one that gRPC's own retry policies
// repeat; the trailer eider-misdirected says that nothing was done.
var errMisdirected = status.Errorf(codes.Unavailable, "eider: the address has changed hands and nothing was done; ask the registry again and call another instance")

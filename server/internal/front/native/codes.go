package native

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/eiderhq/eider"
)

// wireCodes is the one table from the house's kinds of error to gRPC's codes.
var wireCodes = [...]codes.Code{
	eider.Internal:    codes.Internal,
	eider.Invalid:     codes.InvalidArgument,
	eider.NotFound:    codes.NotFound,
	eider.Conflict:    codes.AlreadyExists,
	eider.Stale:       codes.Aborted,
	eider.Limited:     codes.ResourceExhausted,
	eider.Unavailable: codes.Unavailable,
	eider.NoInstance:  codes.FailedPrecondition,
	eider.Closed:      codes.Unavailable,
	eider.Denied:      codes.PermissionDenied,
}

// statusOf turns an error into the status that ends a stream; nil is OK.
func statusOf(err error) error {
	if err == nil {
		return nil
	}
	code := codes.Internal
	if kind := eider.KindOf(err); int(kind) < len(wireCodes) {
		code = wireCodes[kind]
	}
	return status.Error(code, err.Error())
}

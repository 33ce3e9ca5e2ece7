package frameworks

import (
	"errors"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ratelimitgen/ratelimitgen/runtime/limithttp"
)

// connectDeny returns a function for limithttp.Options.Deny: it writes the errors of the protocols Connect, gRPC and
// gRPC-Web. Without it, clients take a denial for the code unavailable, and most retry that at once.
func connectDeny() func(http.ResponseWriter, *http.Request, *limithttp.Denial) {
	writer := connect.NewErrorWriter()
	return func(w http.ResponseWriter, r *http.Request, d *limithttp.Denial) {
		if !writer.IsSupported(r) {
			d.WriteProblem(w)
			return
		}
		err := connect.NewError(connectCode(d.Status), errors.New(http.StatusText(d.Status)))
		if d.RetryAfter > 0 {
			info := &errdetails.RetryInfo{RetryDelay: durationpb.New(d.RetryAfter)}
			if detail, failed := connect.NewErrorDetail(info); failed == nil {
				err.AddDetail(detail)
			}
		}
		// An error means that the client has gone.
		_ = writer.Write(w, r, err)
	}
}

func connectCode(status int) connect.Code {
	switch status {
	case http.StatusTooManyRequests:
		return connect.CodeResourceExhausted
	case http.StatusBadRequest:
		return connect.CodeInvalidArgument
	case http.StatusUnauthorized:
		return connect.CodeUnauthenticated
	case http.StatusForbidden:
		return connect.CodePermissionDenied
	case http.StatusServiceUnavailable:
		return connect.CodeUnavailable
	}
	return connect.CodeInternal
}

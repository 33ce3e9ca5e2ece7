package middleware

import (
	"context"
	"errors"
	"net"
)

// Failed reports whether the error of a function of the program says that something which it needs has failed, such as the
// database with the plans of customers, and not that the request is at fault: it is one of the network, or of a context.
func Failed(err error) bool {
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, context.Canceled)
}

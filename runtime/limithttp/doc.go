// Package limithttp puts limits in front of HTTP handlers.
//
// # The model
//
// A [Binder] connects the generated Limits with routes. Its method [Binder.Limit] takes a function from a request to a limit
// and its key, and returns a [Route], whose Wrap puts the limit in front of an [http.Handler]:
//
//	h := limithttp.New(limit, limithttp.Options{})
//	posts := h.Limit(func(r *http.Request) (limits.Item, error) {
//		id, err := userID(r)
//		return limit.SendMessage(id), err
//	})
//	mux.Handle("POST /messages", posts.Wrap(post))
//
// The function is where a key comes from, so that its type is checked by the compiler. [Binder.All] takes from several
// limits, all or none, and [Binder.Group] from a group of limits.yaml. With [Binder.InFlight], a slot of a limit in flight
// is held while the handler runs. Wrap is a middleware as net/http, chi and gorilla use them; README.md has snippets for
// gin, echo, Connect and gRPC.
//
// # Responses
//
// Before the handler runs, the response gets the fields RateLimit-Policy and RateLimit of
// draft-ietf-httpapi-ratelimit-headers-11, for each limit of the route that has a key. The ResponseWriter is not wrapped,
// unless a slot is held and its connection can be hijacked, see [Binder.InFlight], or the status decides. If the handler
// must not run, the response is:
//
//	case                                      status  fields
//	a limit denies                            429     both fields; Retry-After, unless no retry passes
//	more tokens than the limit ever has       400     none
//	the function returns an error             400     none; or the status of the error, see Error; 500 for a mistake of the program
//	the network fails in the function         503     Retry-After: 1
//	the function needs a configured ClientIP  500     none
//	a mistake of the program                  500     none; see runtime.OriginProgram
//	the store fails                           503     Retry-After: 1
//
// The body is application/problem+json (RFC 9457), for a denial with its [runtime.Decision.Reason] in reason, and the names
// of the limits that deny in violated-policies. Retry-After is in seconds, rounded up, and has the jitter of the limit: a
// client that waits as long and is not overtaken by another one passes. For a limit in flight it is an estimate: the moving
// average of how long requests have held its slots in this process, and at most the time until a hold ends that is not
// renewed. If a store fails and the limit has onError: open, the handler runs and there are no fields, because nothing is
// known. Limits in shadow mode, limits that are off and unlimited plans, counted or not, have no fields either. A limit with
// a lease has no RateLimit field until it denies.
//
// A browser shows a response's fields to scripts of another origin only if Access-Control-Expose-Headers names them:
//
//	Access-Control-Expose-Headers: RateLimit, RateLimit-Policy, Retry-After
//
// # Non-guarantees
//
//   - The fields are no promise: other requests take from the same key, and an operator can change a limit.
//   - A handler that fails has taken its tokens nonetheless. To give them back, call [Settle] with 0, or let the status decide:
//     [Route.CountWhen].
//   - There is no default for the address of a client: see [ClientIP].
package limithttp

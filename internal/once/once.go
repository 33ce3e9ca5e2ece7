// Package once marks the calls of middleware, which do not take again from a limit that already stands around a request.
package once

import "context"

type key struct{}

// In returns the context for such a call.
func In(ctx context.Context) context.Context { return context.WithValue(ctx, key{}, true) }

// Is reports whether a context is one of In.
func Is(ctx context.Context) bool { return ctx.Value(key{}) != nil }

// Package ability finds what a store can do beyond Do, or a writer beyond Write, also if it is decorated.
package ability

import "fmt"

// Of returns the first value with the methods of A in the chain that begins with s and goes on with the results of Unwrap()
// S, as [net/http.ResponseController] searches it. S is runtime.Store or http.ResponseWriter.
func Of[A, S any](s S) (A, bool) {
	// Bounded, because Unwrap of a decorator may return the decorator itself.
	for range maxDepth {
		if a, ok := any(s).(A); ok {
			return a, true
		}
		decorator, ok := any(s).(interface{ Unwrap() S })
		if !ok {
			break
		}
		s = decorator.Unwrap()
	}
	var none A
	return none, false
}

// maxDepth is more decorators than any program has.
const maxDepth = 100

// Missing returns err, that a store lacks an ability, with the type of the store and what a decorator of one that has it
// needs.
func Missing[S any](err error, store S) error {
	return fmt.Errorf("%w: its type is %T: if it decorates another store, it needs the method Unwrap() runtime.Store", err, store)
}

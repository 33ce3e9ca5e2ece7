package main

import "github.com/ratelimitgen/ratelimitgen/gen/spec"

// suggestion asks whether a word, which has the prefix before it, was meant by what was written. It is
// empty if none is near.
func suggestion(prefix, written string, words []string) string {
	if best := spec.Nearest(written, words); best != "" {
		return "; did you mean " + prefix + best + "?"
	}
	return ""
}

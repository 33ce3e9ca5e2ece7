package fields

import (
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

var onErrorField = wordOf(ids.BadOnError, runtime.OnErrors(), onErrorSynonyms, func(p *runtime.Policy) *runtime.OnError { return &p.OnError }, limitField{
	name: "onError", synonyms: []string{"fail", "failure", "fallback"},
	about:     "The decision if the store fails: `closed` allows no request, and the call returns the error; `open` allows every request without counting it; `local` decides by the same rule from the memory of the process.",
	more:      "With `local`, each process goes on from what it last saw of the key, or from a full key: n processes may allow n times the limit, and the store counts nothing of it. `Require` and `Wait` hide the failure; decisions have it in `FailedOpen` and `FailedLocal`. The store's `Start` finds one that is broken from the beginning.",
	accepts:   "`closed`, `open` or `local`",
	absent:    "that of `defaults`, or `closed`",
	example:   "open",
	change:    ids.OnErrorChanged,
	sentences: onErrorSentences,
})

// onErrorSynonyms are the words for an onError in other limiters.
var onErrorSynonyms = map[string]runtime.OnError{
	"allow": runtime.FailOpen, "pass": runtime.FailOpen, "true": runtime.FailOpen,
	"memory": runtime.FailLocal, "inmemory": runtime.FailLocal, "fallback": runtime.FailLocal, "insurance": runtime.FailLocal,
	"deny": runtime.FailClosed, "block": runtime.FailClosed, "false": runtime.FailClosed,
}

// onErrorSentences covers timeout too. It is empty for the default, an error without a timeout.
func onErrorSentences(l *spec.Limit) []string {
	p := &l.Policy
	failure := "If the store fails"
	if p.Timeout > 0 {
		failure += " or takes longer than " + words.Duration(p.Timeout)
	}
	switch {
	case p.OnError == runtime.FailOpen || p.Mode == runtime.ModeShadow:
		return []string{failure + ", requests are allowed and not counted."}
	case p.OnError == runtime.FailLocal:
		return []string{failure + ", each process decides by the same rule from its own memory."}
	case p.Timeout > 0:
		return []string{failure + ", no request is allowed and the call returns the error."}
	}
	return nil
}

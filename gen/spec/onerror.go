package spec

import "github.com/ratelimitgen/ratelimitgen/runtime"

// onError reads what a limit decides when its store fails.
func (p *parser) onError(limit *Limit, e entry) bool {
	decided, ok := oneOf(e, runtime.OnErrors())
	if !ok {
		p.report(e.at, badOnError, "", "onError must be %s, not %s", list(inWords(runtime.OnErrors()), "or"), describe(e.value))
		p.meant(meantWord(e.value.Value, runtime.OnErrors(), wordsForOnError))
	}
	limit.Policy.OnError = decided
	return ok
}

// wordsForOnError are what other limiters and people say.
var wordsForOnError = map[string]runtime.OnError{
	"allow": runtime.FailOpen, "pass": runtime.FailOpen, "true": runtime.FailOpen,
	"deny": runtime.FailClosed, "block": runtime.FailClosed, "false": runtime.FailClosed,
}

package spec

import "github.com/ratelimitgen/ratelimitgen/runtime"

// onError reads what a limit decides when its store fails.
func (p *parser) onError(limit *Limit, e entry) bool {
	return readWord(p, e, badOnError, runtime.OnErrors(), wordsForOnError, &limit.Policy.OnError)
}

// wordsForOnError are what other limiters and people say.
var wordsForOnError = map[string]runtime.OnError{
	"allow": runtime.FailOpen, "pass": runtime.FailOpen, "true": runtime.FailOpen,
	"deny": runtime.FailClosed, "block": runtime.FailClosed, "false": runtime.FailClosed,
}

package explain

import (
	"fmt"
	"io"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/printable"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// WriteLimit prints what a limit of a file means: its rule, its numbers, how it is reserved and how it is called.
// It returns the error of w.
func WriteLimit(w io.Writer, file string, l *spec.Limit, color bool) error {
	p := newPage(color)
	p.title("%s:%d:%d: %s", printable.Line(file), l.Pos.Line, l.Pos.Column, l.Policy.Name)
	if l.Doc != "" {
		p.say("doc", l.Doc)
	}
	p.say("key", key(l))
	p.say("rule", strings.Join(append(l.Words(), l.WorstCase()), " "))
	if l.Policy.OnError == runtime.FailClosed && l.Policy.Timeout == 0 { // otherwise, the rule says so
		p.say("store", "If the store does not answer, nothing passes: the call returns an error.")
	}
	p.numbers(l)
	p.say("reserving", strings.Join(reserving(&l.Policy), " "))
	if l.Policy.Shards > 1 {
		p.say("shards", shards(&l.Policy))
	}
	p.calls(l)
	return p.writeTo(w)
}

// key says whom each count belongs to, with the types that a call must pass.
func key(l *spec.Limit) string {
	if len(l.Key) == 0 {
		return "none, one count for everybody"
	}
	var parts []string
	for _, part := range l.Key {
		parts = append(parts, part.Name+" "+part.Type)
	}
	return strings.Join(parts, ", ")
}

// calls says how the limit is called in Go.
func (p *page) calls(l *spec.Limit) {
	verb := "Allow"
	if l.Policy.Capacity == 0 {
		verb = "Reserve"
	}
	p.say("call", fmt.Sprintf("limit.%s(%s).%s(ctx)", l.GoName, strings.Join(names(l), ", "), verb))
	p.say("verbs", fmt.Sprintf("%s. %sN and the like take a count.", spec.List(review.Verbs(l), "and"), verb))
}

// names are those of the parts of the key.
func names(l *spec.Limit) (names []string) {
	for _, part := range l.Key {
		names = append(names, part.Name)
	}
	return names
}

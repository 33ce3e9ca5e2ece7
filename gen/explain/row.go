package explain

import "github.com/ratelimitgen/ratelimitgen/runtime"

// row is the count of one key at the beginning of a window.
type row struct {
	rule  runtime.Rule
	state runtime.State
}

// fullRow returns that of a key that nobody has asked yet.
func fullRow(p *runtime.Policy) *row { return &row{rule: p.Rule("")} }

// ask answers a question, whose count must fit.
func (r *row) ask(q runtime.Request) runtime.Decision {
	next, d, err := r.rule.Step(r.state, r.rule.Phase, q)
	if err != nil {
		panic("explain: a count that fits is refused: " + err.Error())
	}
	r.state = next
	return d
}

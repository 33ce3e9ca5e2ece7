package page

import (
	"github.com/ratelimitgen/ratelimitgen/gen/draw"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Recording has the decisions on a trace.
type Recording struct{}

func (r *Recording) words() []string { return nil }

func (r *Recording) tallyWords(string) string { return "" }

func (r *Recording) picture(string, []*runtime.Policy, []string) (draw.Picture, bool) {
	return draw.Picture{}, false
}

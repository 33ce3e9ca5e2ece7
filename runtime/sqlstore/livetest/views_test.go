package livetest

import (
	"testing"

	"github.com/ratelimitgen/ratelimitgen/gen/views/viewstest"
)

// At 10,000 random instants with -long, the views show what a Peek returns.
func TestViewsEqualPeek(t *testing.T) {
	instants := 200
	if *long {
		instants = 10_000
	}
	onEach(t, func(t *testing.T, s server) {
		if s.driver == "postgres" {
			return // the same views as with pgx
		}
		viewstest.Run(t, s.open(t), s.dialect, newTable(), instants)
	})
}

func TestViewsUsePrimaryKey(t *testing.T) {
	onEach(t, func(t *testing.T, s server) { viewstest.Explain(t, s.open(t), s.dialect, newTable()) })
}

func TestViewsReadTheClock(t *testing.T) {
	onEach(t, func(t *testing.T, s server) { viewstest.Clock(t, s.open(t), s.dialect, newTable()) })
}

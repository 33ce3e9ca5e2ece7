package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/ratelimitgen/ratelimitgen/gen/render"
	"github.com/ratelimitgen/ratelimitgen/gen/sim"
	"github.com/ratelimitgen/ratelimitgen/gen/sim/trace"
)

// simulation is a replay that has not begun. Each format runs it, because one prints the lines as they are decided.
type simulation struct {
	// ctx ends at an interrupt, after which no request is decided.
	ctx      context.Context
	requests requests
	*sim.Comparison
	// against is whether the decisions are compared with the old ones.
	against bool
	onFault func(*trace.Fault) error
	// replayed is called when the last request is decided.
	replayed func()
}

// writeSimulation prints a report on the decisions or, with -against, on how they differ from the old ones.
func writeSimulation(w io.Writer, s simulation, o render.Options) error {
	_, replay := s.Sides()
	report := sim.NewReport(replay)
	decide, writeText := s.Decide, s.WriteText
	if !s.against {
		writeText = report.WriteText
		decide = func(l *trace.Line) error {
			d, err := replay.Decide(l)
			if err != nil {
				return err
			}
			return report.Write(l, d)
		}
	}
	stopped := s.replay(decide)
	if stopped != nil && !errors.As(stopped, new(interrupted)) {
		return stopped
	}
	leftOut := int64(0)
	if in, ok := s.requests.(*trace.Reader); ok {
		leftOut = in.LeftOut
	}
	return errors.Join(writeText(w, o.Color, leftOut), stopped)
}

// replay decides the requests. The error is interrupted if the context has ended.
func (s *simulation) replay(decide func(*trace.Line) error) error {
	defer s.replayed()
	decided := int64(0)
	err := s.requests.Replay(func(l *trace.Line) error {
		if s.ctx.Err() != nil {
			return interrupted{decided}
		}
		decided++
		return decide(l)
	}, s.onFault)
	if err == nil && s.ctx.Err() != nil { // the interrupt has ended the program that writes the trace, too
		err = interrupted{decided}
	}
	return err
}

// interrupted is the error of a replay that was interrupted after a number of requests.
type interrupted struct{ requests int64 }

func (i interrupted) Error() string {
	return fmt.Sprintf("interrupted: the output has the requests so far, %d", i.requests)
}

// writeSimulationLines prints each line with its decision and, with -against, the old one.
func writeSimulationLines(w io.Writer, s simulation, _ render.Options) error {
	lines := sim.NewJSONL(w)
	return s.replay(func(l *trace.Line) error {
		old, new, err := s.DecideBoth(l)
		if err != nil {
			return err
		}
		return lines.Write(l, old, new)
	})
}

// requests are those of a trace, or generated ones.
type requests interface {
	Replay(answer func(*trace.Line) error, onFault func(*trace.Fault) error) error
}

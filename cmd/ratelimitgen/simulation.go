package main

import (
	"io"

	"github.com/ratelimitgen/ratelimitgen/gen/render"
	"github.com/ratelimitgen/ratelimitgen/gen/sim"
	"github.com/ratelimitgen/ratelimitgen/gen/sim/trace"
)

// simulation is a replay that has not begun. Each format runs it, because one prints the lines as they are decided.
type simulation struct {
	requests requests
	*sim.Comparison
	// against is whether the decisions are compared with the old ones.
	against bool
	onFault func(*trace.Fault) error
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
	if err := s.requests.Replay(decide, s.onFault); err != nil {
		return err
	}
	leftOut := int64(0)
	if in, ok := s.requests.(*trace.Reader); ok {
		leftOut = in.LeftOut
	}
	return writeText(w, o.Color, leftOut)
}

// writeSimulationLines prints each line with its decision and, with -against, the old one.
func writeSimulationLines(w io.Writer, s simulation, _ render.Options) error {
	lines := sim.NewJSONL(w)
	return s.requests.Replay(func(l *trace.Line) error {
		old, new, err := s.DecideBoth(l)
		if err != nil {
			return err
		}
		return lines.Write(l, old, new)
	}, s.onFault)
}

// requests are those of a trace, or generated ones.
type requests interface {
	Replay(answer func(*trace.Line) error, onFault func(*trace.Fault) error) error
}

package main

import (
	"errors"

	"github.com/ratelimitgen/ratelimitgen/gen/sim"
)

// replay answers the trace in the form that was asked for.
func (m *simulation) replay(s streams, trace *sim.Trace, limits, old []sim.Limit, faults *faults) error {
	color := m.color.color(s.outColor)
	replay := sim.NewReplay(limits)
	switch {
	case m.against != "":
		c := sim.NewComparison(old, limits)
		if err := trace.Replay(c.Ask, faults.add); err != nil {
			return err
		}
		c.LeftOut = trace.LeftOut
		return c.WriteText(s.out, color)
	case m.format.value == "jsonl":
		return answer(trace, replay, sim.NewJSONL(s.out).Write, faults)
	case m.format.value == "csv":
		csv := sim.NewCSV(s.out)
		return errors.Join(answer(trace, replay, csv.Write, faults), csv.Flush())
	}
	report := sim.NewReport(replay)
	if err := answer(trace, replay, report.Write, faults); err != nil {
		return err
	}
	report.LeftOut = trace.LeftOut
	return report.WriteText(s.out, color)
}

// answer hands each line with its answer to write.
func answer(trace *sim.Trace, replay *sim.Replay, write func(*sim.Line, sim.Answer) error, faults *faults) error {
	return trace.Replay(func(l *sim.Line) error {
		a, err := replay.Ask(l)
		if err != nil {
			return err
		}
		return write(l, a)
	}, faults.add)
}

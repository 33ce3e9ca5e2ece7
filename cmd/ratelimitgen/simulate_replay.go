package main

import (
	"errors"

	"github.com/ratelimitgen/ratelimitgen/gen/sim"
)

// replay answers the trace in the form that was asked for.
func (m *simulation) replay(s streams, trace *sim.Trace, limits, old []sim.Limit, faults *faults) error {
	if m.against != "" {
		return m.compare(s, trace, sim.NewComparison(old, limits), faults)
	}
	replay := sim.NewReplay(limits)
	switch m.format.value {
	case "jsonl":
		return answer(trace, replay, sim.NewJSONL(s.json).Write, faults)
	case "csv":
		csv := sim.NewCSV(s.out)
		return errors.Join(answer(trace, replay, csv.Write, faults), csv.Flush())
	}
	report := sim.NewReport(replay)
	if err := answer(trace, replay, report.Write, faults); err != nil {
		return err
	}
	report.LeftOut = trace.LeftOut
	if m.format.value == "markdown" {
		return report.WriteMarkdown(s.out)
	}
	return report.WriteText(s.out, m.color.color(s.out))
}

// answer hands each line with its answer to write.
func answer(trace *sim.Trace, replay *sim.Replay, write func(*sim.Line, sim.Answer) error, faults *faults) error {
	return trace.Replay(func(l *sim.Line) error {
		a, err := replay.Decide(l)
		if err != nil {
			return err
		}
		return write(l, a)
	}, faults.add)
}

// compare answers the trace by both sides.
func (m *simulation) compare(s streams, trace *sim.Trace, c *sim.Comparison, faults *faults) error {
	switch m.format.value {
	case "jsonl":
		return answerBoth(trace, c, sim.NewJSONL(s.json).WriteBoth, faults)
	case "csv":
		csv := sim.NewComparisonCSV(s.out)
		return errors.Join(answerBoth(trace, c, csv.WriteBoth, faults), csv.Flush())
	}
	if err := trace.Replay(c.Decide, faults.add); err != nil {
		return err
	}
	c.LeftOut = trace.LeftOut
	if m.format.value == "markdown" {
		return c.WriteMarkdown(s.out)
	}
	return c.WriteText(s.out, m.color.color(s.out))
}

// answerBoth hands each line with both of its answers to write.
func answerBoth(trace *sim.Trace, c *sim.Comparison, write func(l *sim.Line, old, new sim.SideAnswer) error, faults *faults) error {
	return trace.Replay(func(l *sim.Line) error {
		old, new, err := c.DecideBoth(l)
		if err != nil {
			return err
		}
		return write(l, old, new)
	}, faults.add)
}

package main

import (
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/sim"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// read reads the limits, and the old ones if there are any to compare with.
func (m *simulation) read(s streams) (limits, old []sim.Limit, err error) {
	if limits, err = m.readFile(s, m.limits); err != nil {
		return nil, nil, err
	}
	if m.against != "" {
		if old, err = m.readOld(s); err != nil {
			return nil, nil, err
		}
	}
	names := limitNames(slices.Concat(limits, old))
	if m.limit != "" && !slices.Contains(names, m.limit) {
		return nil, nil, misusef("there is no limit %q in %s%s", m.limit, shown(m.limits), suggestion("", m.limit, names))
	}
	return limits, old, nil
}

// readOld reads what -against names: a file, or a file in git.
func (m *simulation) readOld(s streams) ([]sim.Limit, error) {
	old, err := sideOf("the old side", m.against)
	if err != nil {
		return nil, err
	}
	file, err := old.limits(s.err, m.color.color(s.err))
	if err != nil {
		return nil, err
	}
	return m.simulated(file.File), nil
}

// readFile reads a file of limits, and prints what is wrong with it.
func (m *simulation) readFile(s streams, path string) ([]sim.Limit, error) {
	file, diagnostics, err := readLimits(path)
	if err != nil {
		return nil, err
	}
	if len(diagnostics) > 0 {
		if err := diagnostics.WriteText(s.err, m.color.color(s.err)); err != nil {
			return nil, err
		}
		return nil, no{}
	}
	return m.simulated(file), nil
}

// simulated returns the limits of a file as they are simulated. To be compared, they are told in all their words.
func (m *simulation) simulated(file *spec.File) []sim.Limit {
	var limits []sim.Limit
	for _, l := range file.Limits {
		words := l.Words()
		if m.against == "" {
			words = words[:1]
		}
		limit := sim.Limit{Policy: &l.Policy, Words: strings.Join(words, " ")}
		for _, part := range l.Key {
			limit.Key = append(limit.Key, part.Type)
		}
		limits = append(limits, limit)
	}
	return limits
}

func limitNames(limits []sim.Limit) []string {
	var names []string
	for _, l := range limits {
		names = append(names, l.Policy.Name)
	}
	return names
}

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/sim"
)

// open returns the text of the trace.
func (m *simulation) open(s streams, limits []sim.Limit) (io.ReadCloser, error) {
	if m.traffic != "" {
		return m.makeUp(limits)
	}
	file := os.Stdin
	if m.trace != "-" {
		var err error
		file, err = os.Open(m.trace)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("%s does not exist; -trace names a file of requests, or - for standard input", shown(m.trace))
		case err != nil:
			return nil, err
		}
	}
	if !onTerminal(s.terminal) || m.format.value != "text" && onTerminal(os.Stdout) {
		return file, nil
	}
	return newProgress(file, size(file), s.terminal, time.Now), nil
}

// size returns how many bytes a file has, 0 if nobody knows.
func size(file *os.File) int64 {
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}

// traceName is how messages call the trace.
func (m *simulation) traceName() string {
	switch m.trace {
	case "":
		return "traffic"
	case "-":
		return "standard input"
	}
	return shown(m.trace)
}

// makeUp returns the trace that -traffic describes.
func (m *simulation) makeUp(limits []sim.Limit) (io.ReadCloser, error) {
	i := 0
	switch {
	case m.limit != "":
		i = slices.Index(limitNames(limits), m.limit)
	case len(limits) > 1:
		return nil, misusef("say with -limit to which of the %d limits the traffic goes", len(limits))
	}
	if i < 0 {
		return nil, misusef("the traffic goes to a limit of %s, which has none named %q", shown(m.limits), m.limit)
	}
	traffic, err := sim.NewTraffic(m.traffic, limits[i], m.seed)
	if err != nil {
		return nil, misusef("-traffic: %v", err)
	}
	return io.NopCloser(traffic), nil
}

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/sim/trace"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

// openTrace opens the file of -trace.
func openTrace(path string) (*os.File, error) {
	file, err := openFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist; -trace takes a file of requests, or - for standard input", shown(path))
	}
	return file, err
}

// size returns the size of a file in bytes, 0 for a pipe or if it is unknown.
func size(file *os.File) int64 {
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}

// maxFaults is the number of faults that are listed.
const maxFaults = 10

// faults collects the lines of a trace that cannot be replayed.
type faults struct {
	trace     string
	limits    []string
	keepGoing bool
	count     int
	first     []string
}

// add counts a fault, or without -keep-going returns it as a [checkFailed] error.
func (f *faults) add(fault *trace.Fault) error {
	message := fmt.Sprintf("%s:%v%s", f.trace, fault, suggestion("", fault.Unknown, f.limits))
	if !f.keepGoing {
		return checkFailed{message}
	}
	if f.count++; f.count <= maxFaults {
		f.first = append(f.first, printable.Line(message))
	}
	return nil
}

func (f *faults) list(w io.Writer) error {
	if f.count == 0 {
		return nil
	}
	summary := fmt.Sprintf("%d lines were skipped", f.count)
	switch {
	case f.count == 1:
		summary = "1 line was skipped"
	case f.count > maxFaults:
		summary += fmt.Sprintf("; the first %d are", maxFaults)
	}
	_, err := fmt.Fprintf(w, "%s:\n  %s\n", summary, strings.Join(f.first, "\n  "))
	return err
}

// A progress bar appears after progressAfter, so that a short read shows none, and is updated every progressEvery.
const progressAfter, progressEvery = time.Second, 100 * time.Millisecond

// progress is a file that shows on a terminal how much of it has been read.
type progress struct {
	io.ReadCloser
	size, read int64
	terminal   io.Writer
	clock      func() time.Time
	next       time.Time
	shown      bool
}

// newProgress returns a file with a progress bar. A size of 0 is unknown.
func newProgress(file io.ReadCloser, size int64, terminal io.Writer, clock func() time.Time) *progress {
	return &progress{ReadCloser: file, size: size, terminal: terminal, clock: clock, next: clock().Add(progressAfter)}
}

// Read implements [io.Reader].
func (p *progress) Read(buffer []byte) (int, error) {
	n, err := p.ReadCloser.Read(buffer)
	p.read += int64(n)
	switch now := p.clock(); {
	case err != nil: // also at the end, before the report is printed
		p.erase()
	case !now.Before(p.next):
		p.next = now.Add(progressEvery)
		p.show()
	}
	return n, err
}

// Close implements [io.Closer].
func (p *progress) Close() error {
	p.erase() // a fault can end the replay before the end of the file
	return p.ReadCloser.Close()
}

// progressBar is the width of the bar in characters.
const progressBar = 40

// show draws the bar, or prints only the number of bytes if the size is unknown.
func (p *progress) show() {
	p.shown = true
	if p.size == 0 {
		fmt.Fprintf(p.terminal, "\r%d MB", p.read/1_000_000)
		return
	}
	read := min(p.read, p.size) // the file may have grown
	done := int(read * progressBar / p.size)
	fmt.Fprintf(p.terminal, "\r%s%s %3d%%", strings.Repeat("█", done), strings.Repeat("░", progressBar-done), read*100/p.size)
}

func (p *progress) erase() {
	if p.shown {
		fmt.Fprint(p.terminal, "\r\x1b[K")
		p.shown = false
	}
}

package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// A reading that takes longer than progressAfter shows how far it has come, progressEvery anew.
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

// newProgress returns a file of some size, 0 if it is not known, which shows its progress on a terminal.
func newProgress(file io.ReadCloser, size int64, terminal io.Writer, clock func() time.Time) *progress {
	return &progress{ReadCloser: file, size: size, terminal: terminal, clock: clock, next: clock().Add(progressAfter)}
}

// Read implements [io.Reader].
func (p *progress) Read(buffer []byte) (int, error) {
	n, err := p.ReadCloser.Read(buffer)
	p.read += int64(n)
	switch now := p.clock(); {
	case err != nil:
		p.erase()
	case !now.Before(p.next):
		p.next = now.Add(progressEvery)
		p.show()
	}
	return n, err
}

// Close implements [io.Closer].
func (p *progress) Close() error {
	p.erase()
	return p.ReadCloser.Close()
}

const progressBar = 40

// show draws the bar, or only says how much has been read if nobody knows how much there is.
func (p *progress) show() {
	p.shown = true
	if p.size == 0 {
		fmt.Fprintf(p.terminal, "\r%d MB", p.read/1_000_000)
		return
	}
	done := int(min(p.read, p.size) * progressBar / p.size)
	fmt.Fprintf(p.terminal, "\r%s%s %3d%%", strings.Repeat("█", done), strings.Repeat("░", progressBar-done), min(p.read, p.size)*100/p.size)
}

func (p *progress) erase() {
	if p.shown {
		fmt.Fprint(p.terminal, "\r\x1b[K")
		p.shown = false
	}
}

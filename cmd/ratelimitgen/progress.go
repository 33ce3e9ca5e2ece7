package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// progress shows on a terminal how much of a file was read, while that takes longer than [quietFor]. The nil progress shows
// nothing.
type progress struct {
	w   io.Writer
	now func() time.Time
	// begun is when the first file was read, and shown when the line was last written.
	begun, shown time.Time
}

// quietFor is how long a command works in silence, and refreshed how often the line is written again.
const (
	quietFor  = 2 * time.Second
	refreshed = 200 * time.Millisecond
)

// progressOn returns the progress of a program with these outputs: nil if nobody looks at errs.
func progressOn(errs io.Writer) *progress {
	if !isTerminal(errs) {
		return nil
	}
	return &progress{w: errs, now: time.Now}
}

// isTerminal reports whether w is a terminal on which lines can be written again.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// watch returns a reader of a file that shows how much of it was read.
func (p *progress) watch(file io.ReadCloser) io.ReadCloser {
	if p == nil {
		return file
	}
	if p.begun.IsZero() {
		p.begun = p.now()
	}
	r := &watched{ReadCloser: file, by: p}
	if f, ok := file.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			r.size = info.Size()
		}
	}
	return r
}

// show writes the line, unless it is too soon.
func (p *progress) show(read, size int64) {
	now := p.now()
	if now.Sub(p.begun) < quietFor || now.Sub(p.shown) < refreshed {
		return
	}
	p.shown = now
	line := fmt.Sprintf("%d MB read", read>>20)
	if size > 0 {
		line = fmt.Sprintf("%d %% read", 100*read/size)
	}
	fmt.Fprintf(p.w, "\r%s, %v\x1b[K", line, now.Sub(p.begun).Round(time.Second))
}

// end removes the line.
func (p *progress) end() {
	if p != nil && !p.shown.IsZero() {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = time.Time{}
	}
}

// watched is a file that reports each read to a progress.
type watched struct {
	io.ReadCloser
	by *progress
	// size is 0 if it is not known, as for a pipe.
	read, size int64
}

func (w *watched) Read(b []byte) (n int, err error) {
	n, err = w.ReadCloser.Read(b)
	w.read += int64(n)
	if err != nil {
		w.by.end()
		return n, err
	}
	w.by.show(w.read, w.size)
	return n, err
}

package sim

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// maxLine is the length of the longest line that is read, in bytes.
const maxLine = 1 << 20

// lines reads a text line by line, in bounded memory.
type lines struct {
	from   *bufio.Reader
	number int
}

func newLines(r io.Reader) *lines { return &lines{from: bufio.NewReaderSize(r, maxLine)} }

// next returns the next line that is not empty, which is only good until the one after it is asked for. The
// error is a [*Fault] for a line that is too long, io.EOF after the last one, or that of the reader.
func (l *lines) next() ([]byte, error) {
	for {
		line, err := l.from.ReadSlice('\n')
		if len(line) > 0 {
			l.number++
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, l.skip()
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		}
		if line = bytes.TrimRight(line, " \t\r\n"); len(line) > 0 {
			return line, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// skip reads the rest of a line that is too long.
func (l *lines) skip() error {
	for {
		_, err := l.from.ReadSlice('\n')
		switch {
		case err == nil, errors.Is(err, io.EOF):
			return faultf("the line is longer than 1 MiB")
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

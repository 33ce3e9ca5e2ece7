package trace

import (
	"bufio"
	"compress/gzip"
	"errors"
	"io"
	"strings"
)

// gunzipped decompresses a trace if it begins as gzip data does.
type gunzipped struct {
	raw *bufio.Reader
	// unzipped is nil for a trace that is not compressed, and before the first read.
	unzipped *gzip.Reader
	begun    bool
}

// Read implements [io.Reader].
func (g *gunzipped) Read(p []byte) (int, error) {
	if !g.begun {
		g.begun = true
		// An error of Peek is that of the next read too.
		if start, _ := g.raw.Peek(2); string(start) == "\x1f\x8b" {
			var err error
			if g.unzipped, err = gzip.NewReader(g.raw); err != nil {
				return 0, gzipError(err)
			}
		}
	}
	if g.unzipped == nil {
		return g.raw.Read(p)
	}
	n, err := g.unzipped.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = gzipError(err)
	}
	return n, err
}

func gzipError(err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return mappingErrorf("the gzip data is cut off; decompress what there is with: zcat FILE 2>/dev/null")
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), strings.HasPrefix(err.Error(), "flate:"):
		return mappingErrorf("the gzip data is damaged: %v", err)
	}
	return err
}

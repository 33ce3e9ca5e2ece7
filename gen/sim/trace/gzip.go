package trace

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
)

// gunzipped decompresses a trace if it begins as gzip data does.
type gunzipped struct {
	from    io.Reader
	started bool
}

// Read implements [io.Reader].
func (g *gunzipped) Read(p []byte) (int, error) {
	if !g.started {
		g.started = true
		var start [2]byte
		n, err := io.ReadFull(g.from, start[:])
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, err
		}
		g.from = io.MultiReader(bytes.NewReader(start[:n]), g.from)
		if string(start[:n]) == "\x1f\x8b" {
			unzipped, err := gzip.NewReader(g.from)
			if err != nil {
				return 0, gzipError(err)
			}
			g.from = &gzipFaults{unzipped}
		}
	}
	return g.from.Read(p)
}

// gzipFaults names the errors of gzip data.
type gzipFaults struct{ from io.Reader }

func (g *gzipFaults) Read(p []byte) (int, error) {
	n, err := g.from.Read(p)
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

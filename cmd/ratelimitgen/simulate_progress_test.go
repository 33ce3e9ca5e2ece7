package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shows returns what a terminal gets to see while 3 bytes are read, each of which takes a while.
func shows(t *testing.T, size int64, while time.Duration) string {
	t.Helper()
	var terminal bytes.Buffer
	now := time.Time{}
	file := io.NopCloser(iotest.OneByteReader(strings.NewReader(strings.Repeat("x", 3))))
	p := newProgress(file, size, &terminal, func() time.Time {
		now = now.Add(while)
		return now
	})
	_, err := io.ReadAll(p)
	require.NoError(t, err)
	require.NoError(t, p.Close())
	return terminal.String()
}

func TestProgress(t *testing.T) {
	const erase = "\r\x1b[K"
	bar := func(n int, percent string) string {
		return "\r" + strings.Repeat("█", n) + strings.Repeat("░", 40-n) + " " + percent
	}
	assert.Empty(t, shows(t, 3, 300*time.Millisecond), "what is quick needs no bar")
	assert.Equal(t, bar(13, " 33%")+bar(26, " 66%")+bar(40, "100%")+erase, shows(t, 3, time.Second))
	assert.Equal(t, bar(13, " 33%")+bar(26, " 66%")+bar(40, "100%")+erase, shows(t, 3, 2*time.Hour))
	assert.Equal(t, bar(40, "100%")+bar(40, "100%")+bar(40, "100%")+erase, shows(t, 1, time.Second), "the file has grown")
	assert.Equal(t, "\r0 MB\r0 MB\r0 MB"+erase, shows(t, 0, time.Second), "nobody knows the size")
}

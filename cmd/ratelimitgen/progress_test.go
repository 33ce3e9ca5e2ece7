package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

func TestProgressIsShownOfWhatTakesLong(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace")
	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("line\n"), 200), 0o600))
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	var shown bytes.Buffer
	clock := storetest.NewClock()
	p := &progress{w: &shown, now: clock.Now}
	text := p.watch(file)
	read := func(bytes int, took time.Duration) string {
		defer shown.Reset()
		clock.Add(took)
		_, err := io.ReadFull(text, make([]byte, bytes))
		require.NoError(t, err)
		return shown.String()
	}
	require.Empty(t, read(100, time.Second), "what is done in two seconds is not worth a word")
	require.Equal(t, "\r20 % read, 2s\x1b[K", read(100, time.Second))
	require.Empty(t, read(100, refreshed/2))
	require.Equal(t, "\r100 % read, 2s\x1b[K", read(700, refreshed/2))
	_, err = text.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, "\r\x1b[K", shown.String(), "nothing of it is left")

	shown.Reset()
	p = &progress{w: &shown, now: clock.Now}
	text = p.watch(io.NopCloser(strings.NewReader(strings.Repeat("x", 3<<20))))
	require.Equal(t, "\r2 MB read, 3s\x1b[K", read(2<<20, 3*time.Second), "the size of a pipe is not known")
	p.end()
	require.Equal(t, "\r\x1b[K", shown.String())
}

func TestProgressIsOnTerminalsOnly(t *testing.T) {
	require.Nil(t, progressOn(&bytes.Buffer{}))
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	defer file.Close()
	require.Nil(t, progressOn(file))
	require.Same(t, file, progressOn(file).watch(file))
}

package main

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReplaceFileRemovesTemporaryFileOnError(t *testing.T) {
	dir := t.TempDir()
	taken := filepath.Join(dir, "taken")
	require.NoError(t, os.MkdirAll(filepath.Join(taken, "full"), 0o755))
	require.Error(t, replaceFile(taken, []byte("new")))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 1)
}

func TestReplaceFileKeepsLinks(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	require.NoError(t, os.WriteFile(target, []byte("old"), 0o600))
	require.NoError(t, os.Symlink("target", link))
	require.NoError(t, replaceFile(link, []byte("new")))
	text, err := os.ReadFile(target)
	require.NoError(t, err)
	assert.Equal(t, "new", string(text))
	info, err := os.Lstat(link)
	require.NoError(t, err)
	assert.Equal(t, os.ModeSymlink, info.Mode().Type())
}

func TestReplaceFileReplacesRegularFilesOnly(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo.go")
	require.NoError(t, exec.Command("mkfifo", fifo).Run())
	listener, err := net.Listen("unix", filepath.Join(dir, "socket.go"))
	require.NoError(t, err)
	defer listener.Close()
	for link, to := range map[string]string{"device.go": "device", "gone.go": "nowhere", "pipe.go": "fifo.go", "self.go": "self.go", "dir.go": "."} {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	want := map[string]string{
		"fifo.go": "fifo.go is not a regular file", "socket.go": "socket.go is not a regular file",
		"pipe.go": "a link to " + shown(fifo) + ", is not a regular file",
		"gone.go": "gone.go is a link to nowhere, which does not exist", "self.go": "too many links", "dir.go": "is not a regular file",
	}
	// A new device, because a mistake here must not replace one of the machine. Only root can make it.
	if exec.Command("mknod", filepath.Join(dir, "device"), "c", "1", "3").Run() == nil {
		want["device.go"] = "device, is not a regular file"
	}
	before := listing(t, dir)
	for name, message := range want {
		path := filepath.Join(dir, name)
		assert.ErrorContains(t, replaceFile(path, []byte("new")), message)
		_, err := readOutput(path)
		assert.ErrorContains(t, err, message)
	}
	assert.Equal(t, before, listing(t, dir))
}

func listing(t *testing.T, dir string) (files []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		files = append(files, e.Type().String()+" "+e.Name())
	}
	return files
}

func TestReadingTooLargeFileStopsAtBound(t *testing.T) {
	sparse := filepath.Join(t.TempDir(), "sparse.yaml")
	require.NoError(t, os.WriteFile(sparse, nil, 0o644))
	require.NoError(t, os.Truncate(sparse, 20<<30))
	zero, err := os.Open("/dev/zero")
	require.NoError(t, err)
	defer zero.Close()
	stdin := os.Stdin
	os.Stdin = zero
	defer func() { os.Stdin = stdin }()
	for _, path := range []string{sparse, "/dev/zero", "-"} {
		var stdout, stderr bytes.Buffer
		assert.Equal(t, exitFindings, run([]string{"check", path}, &stdout, &stderr), path)
		assert.Contains(t, stdout.String(), "error: the file is larger than 4 MiB [file-too-large]")
		text, err := readBounded(path)
		require.NoError(t, err)
		assert.Len(t, text, maxRead)
	}
	_, err = readOutput(sparse)
	assert.ErrorContains(t, err, "sparse.yaml is too large to be generated code: 21474836480 bytes, more than 268435456")
}

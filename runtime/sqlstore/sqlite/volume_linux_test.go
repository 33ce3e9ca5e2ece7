package sqlite_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
)

const envMounts = "RATELIMITGEN_TEST_MOUNTS"

// withMounts runs the test in a process with a mount table of its own, in which it may mount anything: this test binary,
// with only this test. It reports whether this is that process.
func withMounts(t *testing.T) bool {
	t.Helper()
	if os.Getenv(envMounts) != "" {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), envMounts+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: gid, Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if cmd.Process == nil && os.Getenv("CI") == "" {
		t.Skip("no right to mount: ", err)
	}
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
	return false
}

// newVolume returns a folder on a volume of a size.
func newVolume(t *testing.T, size string) string {
	folder := t.TempDir()
	require.NoError(t, syscall.Mount("tmpfs", folder, "tmpfs", 0, "size="+size))
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(folder, 0)) })
	return folder
}

// take takes one token a number of times, from the keys in turn, and returns the first error.
func take(t *testing.T, s *sqlite.Store, times, keys int) error {
	limits := limiter.New(s)
	for i := range times {
		if err := limits.Limit(counted, runtime.KeyOf(runtime.Int(i%keys))).Require(t.Context()); err != nil {
			t.Logf("take %d of %d", i, times)
			return err
		}
	}
	return nil
}

func TestLogFitsIntoASmallVolume(t *testing.T) {
	if !withMounts(t) {
		return
	}
	const times = 5000 // without a limit, their log would have 20 MB
	for _, size := range []string{"2m", "6m", "12m"} {
		for _, keys := range []int{1, 500} {
			s := must(sqlite.Open(filepath.Join(newVolume(t, size), "limits.db")))(t)
			assert.NoError(t, take(t, s, times, keys), "%s, %d keys", size, keys)
			b, err := limiter.New(s).Limit(counted, runtime.KeyOf(runtime.Int(0))).Peek(t.Context())
			assert.NoError(t, err)
			assert.Equal(t, counted.Capacity-int64(times/keys), b.Remaining, "every take counts once")
			assert.NoError(t, s.Close())
		}
	}
}

func TestFullVolumeFailsWithAHintUntilThereIsRoom(t *testing.T) {
	if !withMounts(t) {
		return
	}
	folder := newVolume(t, "2m")
	path := filepath.Join(folder, "limits.db")
	s := opened(t, path)
	require.NoError(t, take(t, s, 10, 10))

	filler := filepath.Join(folder, "filler")
	require.Error(t, os.WriteFile(filler, make([]byte, 4<<20), 0o600))
	err := take(t, s, 1000, 1000)
	require.ErrorContains(t, err, `limit "counted": the volume of the database file is full: free some space on it`)
	require.NoError(t, os.Remove(filler))
	require.NoError(t, take(t, s, 1000, 1000))

	// A reader keeps its snapshot in the log, so the log cannot be emptied.
	db := database(t, path)
	reader := must(db.Begin())(t)
	require.NoError(t, reader.QueryRow("SELECT count(*) FROM rate_limits").Scan(new(int)))
	require.ErrorContains(t, take(t, s, 5000, 1), "free some space on it")
	require.NoError(t, reader.Rollback())
	require.NoError(t, take(t, s, 5000, 1))
}

func TestLogShrinksAfterALongReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	s := opened(t, path)
	require.NoError(t, take(t, s, 1, 1))
	db := database(t, path)
	reader := must(db.Begin())(t)
	require.NoError(t, reader.QueryRow("SELECT count(*) FROM rate_limits").Scan(new(int)))
	size := func() int64 {
		info := must(os.Stat(path + "-wal"))(t)
		return info.Size()
	}
	for size() < 32<<20 {
		require.NoError(t, take(t, s, 500, 1))
	}
	require.NoError(t, reader.Rollback())
	require.NoError(t, take(t, s, 10, 1))
	assert.LessOrEqual(t, size(), int64(16<<20))
}

// "docker run -v" can mount a file without its folder.
func TestFileMountedWithoutItsFolderIsRefused(t *testing.T) {
	if !withMounts(t) {
		return
	}
	path := filepath.Join(t.TempDir(), "limits.db")
	s := opened(t, path)
	for _, name := range []string{"mounted.db", `a b\c.db`} {
		mounted := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(mounted, nil, 0o600))
		require.NoError(t, syscall.Mount(path, mounted, "", syscall.MS_BIND, ""))
		link := filepath.Join(t.TempDir(), "link.db")
		require.NoError(t, os.Symlink(mounted, link))
		for _, p := range []string{mounted, link} {
			n, said := takenByAnother(t, p)
			assert.Zero(t, n)
			assert.Contains(t, said, "is mounted by itself")
			assert.Contains(t, said, "mount its directory instead")
		}
		require.NoError(t, syscall.Unmount(mounted, 0))
	}
	folder := t.TempDir()
	require.NoError(t, syscall.Mount(filepath.Dir(path), folder, "", syscall.MS_BIND, ""))
	n, said := takenByAnother(t, filepath.Join(folder, "limits.db"))
	require.NoError(t, syscall.Unmount(folder, 0))
	assert.Equal(t, 400, n, said)
	n, err := taken(limiter.New(s))
	assert.NoError(t, err)
	assert.Zero(t, n, "a folder that is mounted is shared")
}

// The superuser may write every file, so another process opens them, as an unprivileged user.
func TestFileWithoutTheRightToWriteIsNamedInTheError(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "limits.db")
	s := must(sqlite.Open(path))(t)
	require.NoError(t, s.Close())
	require.NoError(t, os.Chmod(path, 0o444))
	require.NoError(t, os.Chmod(filepath.Dir(folder), 0o755))
	require.NoError(t, os.Chmod(folder, 0o777))
	sealed := filepath.Join(folder, "sealed")
	require.NoError(t, os.Mkdir(sealed, 0o555))
	program := filepath.Join(folder, "program") // where every user may run it
	self := must(os.ReadFile(os.Args[0]))(t)
	require.NoError(t, os.WriteFile(program, self, 0o755))

	for path, want := range map[string]string{
		path:                               "attempt to write a readonly database",
		filepath.Join(sealed, "limits.db"): "unable to open database file",
	} {
		var said bytes.Buffer
		open := process("open", path)
		open.Path, open.Stderr = program, &said
		if os.Geteuid() == 0 {
			open.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		assert.Error(t, open.Run())
		assert.Contains(t, said.String(), want)
	}
}

func TestReadOnlyVolumeIsExplained(t *testing.T) {
	if !withMounts(t) {
		return
	}
	folder := newVolume(t, "1m")
	path := filepath.Join(folder, "limits.db")
	s, err := sqlite.Open(path)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NoError(t, syscall.Mount("", folder, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	_, err = sqlite.Open(path)
	assert.ErrorContains(t, err, "that its volume is not mounted read-only")
}

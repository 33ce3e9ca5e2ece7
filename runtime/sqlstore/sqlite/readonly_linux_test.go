package sqlite_test

import (
	"os"
	"path/filepath"
	goruntime "runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
)

// TestReadOnlyFile opens files without the right to write. The superuser has every right, and so becomes
// nobody, as far as files go and in this thread alone.
func TestReadOnlyFile(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "limits.db")
	s, err := sqlite.Open(path)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NoError(t, os.Chmod(path, 0o444))
	require.NoError(t, os.Chmod(filepath.Dir(folder), 0o755))
	require.NoError(t, os.Chmod(folder, 0o777))
	sealed := filepath.Join(folder, "sealed")
	require.NoError(t, os.Mkdir(sealed, 0o555))

	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	if os.Geteuid() == 0 {
		syscall.RawSyscall(syscall.SYS_SETFSUID, 65534, 0, 0)
		defer syscall.RawSyscall(syscall.SYS_SETFSUID, 0, 0, 0)
	}
	_, err = sqlite.Open(path)
	assert.ErrorContains(t, err, "attempt to write a readonly database")
	_, err = sqlite.Open(filepath.Join(sealed, "limits.db"))
	assert.ErrorContains(t, err, "unable to open database file")
}

package sqlite_test

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
)

// TestReadOnlyFile opens files without the right to write. The superuser has every right, so another process does it,
// as nobody.
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
	program := filepath.Join(folder, "program") // where nobody may run it
	self, err := os.ReadFile(os.Args[0])
	require.NoError(t, err)
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

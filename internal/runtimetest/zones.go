package runtimetest

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ZoneWith returns a zone with the rules of a POSIX TZ string, which may put its clock up to a week from UTC.
func ZoneWith(t testing.TB, rules string) *time.Location {
	t.Helper()
	part := append([]byte("TZif2"), make([]byte, 15)...)
	for _, n := range []uint32{0, 0, 0, 0, 1, 4} { // one offset, 0, whose name has 4 bytes
		part = binary.BigEndian.AppendUint32(part, n)
	}
	part = append(append(part, make([]byte, 6)...), "UTC\x00"...)
	zone, err := time.LoadLocationFromTZData("made", append(append(part, part...), "\n"+rules+"\n"...))
	require.NoError(t, err)
	return zone
}

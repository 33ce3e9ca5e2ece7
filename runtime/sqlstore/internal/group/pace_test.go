package group

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEnoughCallsForAnotherFlight(t *testing.T) {
	for _, row := range []struct {
		took     time.Duration
		inFlight int
		want     int
	}{
		{0, 1, 32}, // not known yet
		{100 * time.Microsecond, 1, 32},
		{300 * time.Microsecond, 1, 14},
		{800 * time.Microsecond, 1, 2},
		{800 * time.Microsecond, 2, 4},
		{20 * time.Millisecond, 1, 1},
		{time.Hour, 3, 1},
	} {
		var p pace
		if row.took > 0 {
			p.add(row.took)
			p.add(10 * row.took) // it waited for a busy database
		}
		require.Equal(t, row.want, p.enough(row.inFlight), "%+v", row)
	}
}

func TestPaceForgetsFlightsOfAnEarlierWindow(t *testing.T) {
	var p pace
	p.add(100 * time.Microsecond)
	for range 2*window - 2 {
		p.add(time.Second)
	}
	require.Equal(t, most, p.enough(1))
	p.add(time.Second)
	require.Equal(t, 1, p.enough(1), "the database is farther away now")
}

func TestKeySet(t *testing.T) {
	var a, b keySet
	for hash := range uint64(2048) {
		require.False(t, a.has(hash))
		a.add(hash)
		require.True(t, a.has(hash))
		require.Equal(t, hash > 0, a.meets(&b))
		b.addAll(&a)
		require.True(t, b.has(hash))
	}
}

package group

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEnoughCallsForAnotherFlight(t *testing.T) {
	for _, row := range []struct {
		took           time.Duration
		flights, calls int
		want           int
	}{
		{0, 1, 1, 8}, // not known yet
		{100 * time.Microsecond, 1, 1, 8},
		{100 * time.Microsecond, 1, 40, 20},
		{100 * time.Microsecond, 1, 1000, 32},
		{400 * time.Microsecond, 1, 1, 8},
		{400 * time.Microsecond, 1, 1000, 8},
		{800 * time.Microsecond, 1, 1000, 2},
		{800 * time.Microsecond, 2, 1000, 4},
		{20 * time.Millisecond, 1, 1000, 1},
		{time.Hour, 3, 1000, 1},
	} {
		var p pace
		if row.took > 0 {
			p.add(row.took)
			p.add(10 * row.took) // it waited for a busy database
		}
		require.Equal(t, row.want, p.enough(row.flights, row.calls), "%+v", row)
	}
}

func TestPaceForgetsFlightsOfAnEarlierWindow(t *testing.T) {
	var p pace
	p.add(100 * time.Microsecond)
	for range 2*window - 2 {
		p.add(time.Second)
	}
	require.Equal(t, most, p.enough(1, 1000))
	p.add(time.Second)
	require.Equal(t, 1, p.enough(1, 1000), "the database is farther away now")
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

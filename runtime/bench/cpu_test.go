package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProcessorTimeIsReadFromStat(t *testing.T) {
	busy, err := parseStat("2208 (a (name) of) S 1 2208 2208 0 -1 4194560 9 0 0 0 120 34 5 6 20 0 1 0 99 0 0\n")
	require.NoError(t, err)
	require.Equal(t, 1540*time.Millisecond, busy)
	for _, text := range []string{"", "1 (sh) S 1 2 3", "1 (sh) S 1 2208 2208 0 -1 4194560 9 0 0 0 many 34 5"} {
		_, err := parseStat(text)
		require.Error(t, err, text)
	}
}

func TestAProcessElsewhereHasNoKnownTime(t *testing.T) {
	none := func(context.Context) (int, error) { return -1, nil }
	usage, err := cpuOf(t.Context(), &opened{pid: none})
	require.Error(t, err)
	require.Nil(t, usage)
	require.Zero(t, usage.now())
}

package review

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// pairOf returns a limit of one key before and after an edit.
func pairOf(t *testing.T, old, new string) (was, is *spec.Limit) {
	t.Helper()
	const head = "version: 1\nlimits:\n  send: {key: userID, maxReserved: 0, "
	return parse(t, "old", head+old+"}\n").Limits[0], parse(t, "new", head+new+"}\n").Limits[0]
}

func TestTogether(t *testing.T) {
	const bucket, window = "kind: token bucket, rate: 100, period: 1m", "kind: fixed window, rate: 100, period: 1m"
	for _, test := range []struct {
		old, new   string
		once, rate int64
	}{
		{bucket, bucket + ", shards: 4", 175, 175},
		{bucket, bucket + ", capacity: 120", 120, 100},
		{bucket, window, 200, 100},
		{window + ", start: 0s", window + ", start: 12s", 180, 100},
		{"kind: token bucket, rate: 10, period: 1m, capacity: 20", bucket + ", capacity: 10", 20, 100},
	} {
		old, new := pairOf(t, test.old, test.new)
		rate, known := lasting(old, new)
		assert.Equal(t, test.once, Together(old, new), "%s to %s", test.old, test.new)
		assert.True(t, known)
		assert.Equal(t, test.rate, rate, "%s to %s", test.old, test.new)
	}
}

// Windows of a key's own begin together if one period divides the other, so that none of the old ones has a new one in
// it.
func TestCarriedIntoLongerWindows(t *testing.T) {
	old, new := pairOf(t, "kind: fixed window, rate: 100, period: 1h", "kind: fixed window, rate: 2400, period: 1d")
	assert.Zero(t, Carried(old, new))
	old, new = pairOf(t, "kind: fixed window, rate: 2400, period: 1d", "kind: fixed window, rate: 100, capacity: 5000, period: 1h")
	assert.Equal(t, int64(2300), Carried(old, new), "23 hours begin within a day")
}

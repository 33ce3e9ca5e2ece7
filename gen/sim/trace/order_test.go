package trace

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Lines that wait for late ones are held without what they have in common, and returned as they were read.
func TestHeldLinesTakeLittleMemory(t *testing.T) {
	const n = 5000
	for _, test := range []struct {
		name     string
		line     func(i int) Line
		requests int
	}{
		{"equal", func(i int) Line { return Line{Number: i, Key: []string{"a"}, Count: 1} }, 1},
		{"after empty lines", func(i int) Line { return Line{Number: 2 * i, Count: 1} }, 1},
		{"other times and counts", func(i int) Line { return Line{Number: i, At: int64(i / 2), Count: int64(i)} }, 1},
		{"two keys in turn", func(i int) Line { return Line{Number: i, Key: []string{"ab"[i%2 : i%2+1]}, Count: 1} }, 2},
	} {
		q := new(queue)
		for i := range n {
			line := test.line(i)
			line.KeyTypes = make([]JSONType, len(line.Key))
			q.push(&line)
		}
		assert.Len(t, q.requests, test.requests, test.name)
		for i := range n {
			want := test.line(i)
			want.KeyTypes = make([]JSONType, len(want.Key))
			got := q.pop(n)
			require.NotNil(t, got, test.name)
			assert.Equal(t, want.Key, append([]string(nil), got.Key...), test.name)
			assert.Equal(t, [3]int64{int64(want.Number), want.At, want.Count}, [3]int64{int64(got.Number), got.At, got.Count}, test.name)
		}
		assert.Nil(t, q.pop(n), test.name)
	}

	q := new(queue)
	for i := range n {
		q.push(&Line{Number: i, At: int64(i), Limit: string(rune('a' + i)), Count: 1})
		require.NotNil(t, q.pop(int64(i)))
	}
	assert.LessOrEqual(t, len(q.requests), 1024, "requests of lines that are gone are forgotten")
}

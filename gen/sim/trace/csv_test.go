package trace

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An invalid row does not change how the next one is read.
func TestRowsOfCSV(t *testing.T) {
	const next, good = "1893596646,bob\n", "bob"
	for _, test := range []struct{ rows, want string }{
		{"1893596645,ann\n", "ann"},
		{`1893596645,"ann, ""the"" one"` + "\n", `ann, "the" one`},
		{"1893596645,\"ann\nof two lines\"\n", "ann\nof two lines"},
		{"1893596645,\"ann\r\n\nof three\"\r\n", "ann\n\nof three"},
		{"1893596645,Ø,ann\n", "2: the row has 3 fields; the first line has 2"},
		{"1893596645,a\"nn\n", "2:13: a quote in a field without quotes; put the field in quotes, and write the quote twice"},
		{"\"Ø\"x,ann\n", "2:4: expected a separator after a quoted field"},
		{"1893596645,\"ann\nof two\" lines\n", "2: a quoted field without a closing quote"},
		{"1893596645,\"" + strings.Repeat("ann\n", 1<<18-3), "2: a quoted field does not end within 1 MiB"},
	} {
		r := NewReader(strings.NewReader("at,user\n" + test.rows + next))
		r.Default = "send"
		require.NoError(t, r.Map.Add("key=user"))
		var got []string
		require.NoError(t, r.Replay(func(l *Line) error {
			got = append(got, l.Key[0])
			return nil
		}, func(f *Fault) error {
			got = append(got, f.Error())
			return nil
		}))
		assert.Equal(t, []string{test.want, good}, got, Clip(test.rows, 40))
	}

	r := NewReader(strings.NewReader("\xef\xbb\xbf\nat,user\n" + next))
	require.NoError(t, r.Map.Add("key=user,limit=at"))
	require.NoError(t, r.Replay(func(l *Line) error {
		assert.Equal(t, 3, l.Number, "a byte order mark alone is no line")
		return nil
	}, func(f *Fault) error { return f }))

	r = NewReader(strings.NewReader("at,user\n1893596645,\"ann\n" + next))
	require.NoError(t, r.Map.Add("key=user"))
	var faults []string
	require.NoError(t, r.Replay(nil, func(f *Fault) error {
		faults = append(faults, f.Error())
		return nil
	}))
	assert.Equal(t, []string{"2: a quoted field without a closing quote"}, faults)
}

package runtime_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// TestReason is the table of what denies: of several, a block counts before a penalty, and both before the tokens.
func TestReason(t *testing.T) {
	plain, slots := &runtime.Policy{Rate: 1, Capacity: 1}, &runtime.Policy{Kind: runtime.InFlight, Slots: 1}
	month := &runtime.Policy{Kind: runtime.FixedWindow, Rate: 1, Capacity: 1, Calendar: runtime.Calendar{Unit: runtime.Month, Count: 1}}
	for _, row := range []struct {
		want string
		d    runtime.Decision
	}{
		{"", runtime.Decision{Allowed: true, PenaltyFor: 1, BlockedFor: 1, RetryAfter: runtime.Never}},
		{"rate", runtime.Decision{}},
		{"rate", runtime.Decision{Policy: plain, RetryAfter: 1}},
		{"quota", runtime.Decision{Policy: plain, RetryAfter: runtime.Never}},
		{"zero", runtime.Decision{Policy: &runtime.Policy{}, RetryAfter: runtime.Never}},
		{"quota", runtime.Decision{Policy: month, RetryAfter: 1}},
		{"concurrency", runtime.Decision{Policy: slots, RetryAfter: 1}},
		{"concurrency", runtime.Decision{Policy: slots, RetryAfter: runtime.Never}},
		{"penalty", runtime.Decision{Policy: slots, RetryAfter: 1, PenaltyFor: 1}},
		{"block", runtime.Decision{Policy: month, RetryAfter: runtime.Never, PenaltyFor: 1, BlockedFor: runtime.Never}},
	} {
		require.Equal(t, row.want, row.d.Reason(), row.d)
	}
}

func TestDecisionInWords(t *testing.T) {
	require.Equal(t, "allowed, 19 left", runtime.Decision{Allowed: true, Remaining: 19}.String())
	require.Equal(t, "reserved, use after 6s", runtime.Decision{Allowed: true, UsableAfter: 6 * time.Second}.String())
	for wait, text := range map[time.Duration]string{
		1:                             "1ms",
		1234567:                       "2ms",
		333333334:                     "334ms",
		5999999999:                    "6s",
		6 * time.Second:               "6s",
		6*time.Second + 1:             "7s",
		599 * time.Second:             "9m59s",
		1163 * time.Second:            "19m23s",
		42_780 * time.Second:          "11h53m",
		3601 * time.Second:            "1h1m",
		65*time.Second + 1:            "1m6s",
		1 * time.Hour:                 "1h",
		3900 * time.Second:            "1h5m",
		6001 * time.Second:            "1h41m",
		2763000 * time.Second:         "768h",
		2764799800 * time.Millisecond: "768h",
		runtime.Never - 1:             "2562048h",
	} {
		require.Equal(t, "denied, retry after "+text, runtime.Decision{RetryAfter: wait}.String())
	}
}

func TestBalanceInWords(t *testing.T) {
	b := runtime.Balance{Capacity: 10, Remaining: 9, FullAfter: time.Second}
	require.Equal(t, "9 of 10 left, full after 1s", b.String())
	b.Remaining, b.FullAfter = 10, 0
	require.Equal(t, "10 of 10 left", b.String())
}

func TestOutcomesAndSourcesHaveNames(t *testing.T) {
	var names []string
	for _, o := range runtime.Outcomes() {
		names = append(names, o.String())
	}
	require.Equal(t, len(names), len(slices.Compact(slices.Sorted(slices.Values(names)))))
	require.NotContains(t, names, "")
	require.Equal(t, "Outcome(200)", runtime.Outcome(200).String())
	require.Equal(t, "Outcome(0)", runtime.Observation{}.Outcome.String())
	require.Equal(t, "deny cache", runtime.SourceDenyCache.String())
	require.Equal(t, "Source(200)", runtime.Source(200).String())
}

func TestZeroValuesDeny(t *testing.T) {
	require.Equal(t, "denied", runtime.Decision{}.String())
	require.False(t, runtime.Answer{}.Allowed())
	require.NotContains(t, runtime.Outcomes(), runtime.Observation{}.Outcome)
	require.Equal(t, "Kind(0)", runtime.Kind(0).String())
	require.ErrorIs(t, (&runtime.Policy{}).Validate(), runtime.ErrInvalidPolicy)
	require.ErrorIs(t, (*runtime.Policy)(nil).Validate(), runtime.ErrInvalidPolicy)
	require.ErrorIs(t, runtime.Decision{}.Err(), runtime.ErrLimited)
	require.NoError(t, runtime.Decision{Allowed: true}.Err())
}

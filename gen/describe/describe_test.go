package describe

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

func parsed(t testing.TB, text string) *spec.File {
	t.Helper()
	file, ds := fields.Parse("limits.yaml", []byte(text))
	require.Empty(t, ds, text)
	return file
}

func TestWordsDescribeTheRule(t *testing.T) {
	for _, test := range []struct {
		lines []string
		want  []string
	}{
		{
			[]string{"kind: token bucket", "rate: 10", "period: 1m", "capacity: 20", "maxReserved: 0"},
			[]string{"Token bucket: 10 per minute, at most 20 at once."},
		},
		{
			[]string{"kind: token bucket", "rate: 40_000", "period: 90s", "capacity: 0", "maxReserved: unbounded", "shards: 10"},
			[]string{"Token bucket: 40,000 per 90 seconds, by reservation only.", "Callers may reserve any number of tokens ahead.", "Each count is split into 10 shards."},
		},
		{
			[]string{"kind: fixed window", "rate: 5", "period: 1w", "capacity: 7", "maxReserved: 2", "start: 4d"},
			[]string{"Fixed window: 5 per week, and unused tokens accumulate up to 7.", "Callers may reserve at most 2 tokens ahead.", "Windows begin on Monday at 00:00 UTC."},
		},
		{
			[]string{"kind: fixed window", "rate: 5", "period: 24h", "capacity: 3", "maxReserved: 0", "start: 8h"},
			[]string{"Fixed window: 5 per day, at most 3 at once.", "Windows begin at 08:00 UTC."},
		},
		{
			[]string{"kind: fixed window", "rate: 5", "period: 1h", "maxReserved: 0", "start: 2024-05-06T07:08:09.5Z"},
			[]string{"Fixed window: 5 per hour.", "Windows begin at 00:08:09.5 UTC, and every hour."},
		},
		{
			[]string{"kind: fixed window", "rate: 5", "period: 36h", "maxReserved: 0", "start: 2024-05-06T07:08:00+02:00"},
			[]string{"Fixed window: 5 per 36 hours.", "A window begins at Mon 2024-05-06 05:08 UTC, and every 36 hours before and after it."},
		},
		{
			[]string{"kind: fixed window", "rate: 1", "period: 2h", "maxReserved: 0", "start: first use"},
			[]string{"Fixed window: 1 per 2 hours.", "A window begins at the first request after the previous window has ended."},
		},
		{
			[]string{"kind: fixed window", "rate: unlimited", "count: true", "period: month", "zone: UTC"},
			[]string{"Unlimited, and counted per month.", "Peek returns what was used, until the window ends.", "Windows begin on the 1st of each month at 00:00 in UTC."},
		},
		{
			[]string{"kind: token bucket", "rate: 1_000", "period: 1s", "maxReserved: 0", "lease: {tokens: 100, for: 200ms}", "denyCache: 1s", "durability: relaxed"},
			[]string{
				"Token bucket: 1,000 per second, at most 1,000 at once.",
				"A process repeats a denial from its memory for at most 1s.",
				"A process takes blocks of 100 tokens, and spends each from its memory within 200ms.",
				"At most 1,000 + 1,000*(t + 200ms)/1s can be used in any time t.",
				"A crash of the database's machine may lose the most recent counts.",
			},
		},
		{
			[]string{"kind: token bucket", "rate: 10", "period: 1m", "capacity: 20", "maxReserved: 5", "lease: {tokens: 1, for: 1s}", "durability: full"},
			[]string{
				"Token bucket: 10 per minute, at most 20 at once.",
				"Callers may reserve at most 5 tokens ahead.",
				"A process takes blocks of 1 token, and spends each from its memory within 1s.",
				"At most 20 + 10*(t + 1s)/1m can be used in any time t, or 25 + 10*t/1m if that is more.",
				"A decision waits until the database has written the counts to disk.",
			},
		},
		{
			[]string{"kind: token bucket", "rate: 10", "period: 1m", "maxReserved: unbounded", "lease: {tokens: 10, for: 1s}"},
			[]string{
				"Token bucket: 10 per minute, at most 10 at once.",
				"Callers may reserve any number of tokens ahead.",
				"A process takes blocks of 10 tokens, and spends each from its memory within 1s.",
				"At most 10 + 10*(t + 1s)/1m can be used in any time t, plus reserved tokens.",
			},
		},
		{
			[]string{"kind: fixed window", "rate: 5", "period: 24h", "maxReserved: 0", "start: 8h", "lease: {tokens: 5, for: 1m}"},
			[]string{
				"Fixed window: 5 per day.",
				"Windows begin at 08:00 UTC.",
				"A process takes blocks of 5 tokens, and spends each from its memory within 1m.",
				"A block ends with its window, so no window allows more because of it.",
			},
		},
		{
			[]string{"kind: sliding window", "rate: 5", "period: 1ns", "key: userID"},
			[]string{"Sliding window: about 5 in any nanosecond.", "Each key's windows begin at a fixed offset derived from the key."},
		},
		{
			[]string{"kind: sliding window", "rate: 5", "period: 1500ms"},
			[]string{"Sliding window: about 5 in any 1,500 milliseconds.", "Windows begin at a fixed offset derived from the limit's name."},
		},
		{
			[]string{"kind: token bucket", "rate: 10", "period: 1m", "maxReserved: 1", "timeout: 90s", "onError: open"},
			[]string{
				"Token bucket: 10 per minute, at most 10 at once.", "Callers may reserve at most 1 token ahead.",
				"If the store fails or takes longer than 1m30s, requests are allowed and not counted.",
			},
		},
		{
			[]string{"kind: token bucket", "rate: 10", "period: 1m", "maxReserved: 0", "timeout: 1s"},
			[]string{
				"Token bucket: 10 per minute, at most 10 at once.",
				"If the store fails or takes longer than 1s, no request is allowed and the call returns the error.",
			},
		},
		{
			[]string{"kind: fixed window", "rate: 5", "period: 10m", "start: first use", "penalty: 15m"},
			[]string{
				"Fixed window: 5 per 10 minutes.",
				"A window begins at the first request after the previous window has ended.",
				"After a denial for lack of tokens, a key is denied for 15m.",
			},
		},
		{
			[]string{"kind: token bucket", "rate: 7", "period: 1m", "warn: [80%, 100%]", "lease: {tokens: 2, for: 1s}"},
			[]string{
				"Token bucket: 7 per minute, at most 7 at once.",
				"Warns when 6 tokens (80%) and 7 tokens (100%) of the capacity are used. Leased tokens count as used.",
				"A process takes blocks of 2 tokens, and spends each from its memory within 1s.",
				"At most 7 + 7*(t + 1s)/1m can be used in any time t.",
			},
		},
		{
			[]string{"kind: token bucket", "rate: 10", "period: 1m", "penalty: [1m, 10m, 1h]", "mode: shadow"},
			[]string{
				"Token bucket: 10 per minute, at most 10 at once.",
				"Shadow mode: requests that would be denied or delayed pass at once, and Decision.Shadowed reports them.",
				"After a denial for lack of tokens, a key is denied for 1m, and the next times for 10m and 1h, until there was no penalty for 10h. In shadow mode, these requests pass too, and are counted as denied.",
				"If the store fails, requests are allowed and not counted.",
			},
		},
		{
			[]string{"kind: token bucket", "rate: 10", "period: 1m", "maxReserved: 0", "onError: local", "timeout: 1s", "jitter: 10s"},
			[]string{
				"Token bucket: 10 per minute, at most 10 at once.",
				"If the store fails or takes longer than 1s, each process decides by the same rule from its own memory.",
				"Clients are told to retry up to 10s later than necessary, so that they do not all come back at once.",
			},
		},
		{
			[]string{"kind: token bucket", "rate: 10", "period: 1m", "maxReserved: 0", "onError: open"},
			[]string{"Token bucket: 10 per minute, at most 10 at once.", "If the store fails, requests are allowed and not counted."},
		},
		{
			[]string{"kind: token bucket", "rate: 10", "period: 1m", "mode: shadow", "timeout: 1s", "denyCache: 1s"},
			[]string{
				"Token bucket: 10 per minute, at most 10 at once.",
				"Shadow mode: requests that would be denied or delayed pass at once, and Decision.Shadowed reports them.",
				"If the store fails or takes longer than 1s, requests are allowed and not counted.",
			},
		},
		{
			[]string{"kind: token bucket", "rate: 10", "period: 1m", "maxReserved: 5", "mode: off", "timeout: 1s"},
			[]string{"Token bucket: 10 per minute, at most 10 at once.", "Switched off: every request passes, and none is counted."},
		},
		{
			[]string{"kind: token bucket", "rate: 10", "period: 1m", "mode: block", "lease: {tokens: 1, for: 1s}"},
			[]string{"Token bucket: 10 per minute, at most 10 at once.", "Blocked: every request is denied."},
		},
	} {
		assert.Equal(t, test.want, Words(parsed(t, ids.LimitOf(test.lines...)).Limits[0]))
	}
}

func TestWorstCaseIsOneSentence(t *testing.T) {
	const bucket, window, sliding = "kind: token bucket, ", "kind: fixed window, ", "kind: sliding window, "
	const lease = "lease: {tokens: 10, for: 255ms}, maxReserved: 0"
	for _, test := range []struct{ limit, want string }{
		{bucket + "rate: 10, period: 1m, capacity: 20, maxReserved: 0", "Worst case: 30 in any minute."},
		{bucket + "rate: 10, period: 1m, capacity: 20, maxReserved: 5", "Worst case: 35 in any minute, counting reserved tokens when their delay has passed."},
		{bucket + "rate: 10, period: 1m, capacity: 20, maxReserved: unbounded", "Worst case: 30 in any minute without reservations, which have no bound."},
		{bucket + "rate: 10, period: 1m, capacity: 0, maxReserved: unbounded", "Worst case: reservations have no bound."},
		{bucket + "rate: 100, period: 1s, " + lease, "Worst case: 225 in any second."},
		{bucket + "rate: 100, period: 1s, maxReserved: 10, lease: {tokens: 10, for: 1s}", "Worst case: 300 in any second, counting reserved tokens when their delay has passed."},
		{bucket + "rate: 1_000_000_000_000_000, period: 1ns, " + lease, "Worst case: no bound in any nanosecond."},
		{window + "rate: 40_000, period: 1d, maxReserved: 0", "Worst case: 80,000 in any day."},
		{window + "rate: 100, period: 1h, maxReserved: 1", "Worst case: 300 in any hour, counting reserved tokens when their delay has passed."},
		{window + "rate: 100, period: 1s, " + lease, "Worst case: 200 in any second."},
		{window + "rate: 10, period: 1m, capacity: 20, maxReserved: 0, start: first use", "Worst case: 39 in any minute."},
		{sliding + "rate: 100, period: 1s, " + lease, "Worst case: 200 in any second."},
		{bucket + "rate: 10, period: 1m, mode: shadow", "Worst case, if it were enforced: 20 in any minute."},
		{window + "rate: 10, period: month, zone: UTC, mode: shadow", "Worst case, if it were enforced: 10 in each calendar month, and 20 in any 4 weeks."},
	} {
		file := parsed(t, "version: 1\nlimits: {a: {"+test.limit+"}}\n")
		assert.Equal(t, test.want, Limit(file.Limits[0]).Worst, test.limit)
	}
}

// Sentences that hold for all limited plans are said once.
func TestWordsOfPlans(t *testing.T) {
	file := parsed(t, "version: 1\nplans: [free, pro, max]\nlimits:\n  calls: {kind: token bucket, period: 1m, rate: {free: 10, pro: 60, max: unlimited}, "+
		"maxReserved: {free: 5, pro: 30}, shards: 2, onError: open}\n")
	l := file.Limits[0]
	assert.Equal(t, []string{
		"free: Token bucket: 10 per minute, at most 10 at once. Callers may reserve at most 5 tokens ahead.",
		"pro: Token bucket: 60 per minute, at most 60 at once. Callers may reserve at most 30 tokens ahead.",
		"max: Unlimited: every request is allowed, and none is counted.",
		"Each count is split into 2 shards.",
		"If the store fails, requests are allowed and not counted.",
	}, Words(l))
	assert.Equal(t, "Worst case: free: 25 in any minute, counting reserved tokens when their delay has passed; "+
		"pro: 150 in any minute, counting reserved tokens when their delay has passed; max: no bound.", Limit(l).Worst)
	assert.Equal(t, []string{"Unlimited: every request is allowed, and none is counted."}, Limit(l).Plans[2].Lines())
	shadow := parsed(t, ids.Planned("rate: {free: 10, pro: unlimited}", "mode: shadow")).Limits[0]
	assert.Equal(t, "Worst case, if it were enforced: free: 20 in any minute; pro: no bound.", Limit(shadow).Worst)
	blocked := Limit(parsed(t, ids.Planned("rate: {free: 10, pro: unlimited}", "mode: block")).Limits[0])
	assert.Equal(t, "Worst case, if it were enforced: free: 20 in any minute; pro: no bound.", blocked.Worst)
	assert.Equal(t, []string{"Unlimited when it is not blocked."}, blocked.Plans[1].Lines())
	assert.Equal(t, int64(10), l.Policy.Rate, "the policy is that of the first limited plan")
	for i, plan := range []string{"free", "pro", "max"} {
		of := l.ForPlan(plan)
		assert.Same(t, l.Plans[i], of)
		assert.NoError(t, of.Policy.Validate())
		assert.Equal(t, 2, of.Policy.Shards, "the shards of a key are the same for all plans, so that Reset finds all rows")
	}
	assert.Nil(t, l.ForPlan("gold"))
	assert.NotEqual(t, l.ForPlan("free").Places["rate"], l.ForPlan("pro").Places["rate"])
}

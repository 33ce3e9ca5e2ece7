package fields

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
)

// mend is an edit that the help of a diagnostic says: the text old of the file becomes new.
type mend struct {
	// said is the part of the help that says it.
	said     string
	old, new string
}

// calendarStarts are the mends that the help of a start has for each calendar.
func calendarStarts(old string, starts ...string) (mends []mend) {
	for _, start := range starts {
		mends = append(mends, mend{start, old, "start: " + start})
	}
	return mends
}

// What the help of a diagnostic says is what the next check accepts.
func TestHelpIsAccepted(t *testing.T) {
	const bucket, window, sliding = "kind: token bucket, rate: 10, period: 1m", "kind: fixed window, rate: 10, period: 7d", "kind: sliding window, rate: 10, period: 7d"
	const month, week, quarter = "kind: fixed window, rate: 10, period: month, zone: UTC", "kind: fixed window, rate: 10, period: week, zone: UTC", "kind: fixed window, rate: 10, period: 3 months, zone: UTC"
	for fields, mends := range map[string][]mend{
		// Starts.
		month + ", start: 1st of month":                       append(calendarStarts("start: 1st of month", "15th", "06:00", "anniversary"), mend{"both", "1st of month", "15th 06:00"}),
		month + ", start: 15":                                 calendarStarts("start: 15", "15th"),
		month + ", start: 6am":                                calendarStarts("start: 6am", "06:00"),
		month + ", start: 12 am":                              calendarStarts("start: 12 am", "00:00"),
		month + ", start: midnight":                           calendarStarts("start: midnight", "00:00"),
		month + ", start: 2024-01-01T00:00:00Z":               calendarStarts("start: 2024-01-01T00:00:00Z", "15th", "06:00", "anniversary"),
		month + ", start: first use":                          calendarStarts("start: first use", "15th", "06:00", "anniversary"),
		week + ", start: mon":                                 calendarStarts("start: mon", "monday"),
		week + ", start: the first":                           append(calendarStarts("start: the first", "monday", "06:00", "anniversary"), mend{"both", "the first", "monday 06:00"}),
		quarter + ", start: january":                          calendarStarts("start: january", "2024-04-06", "06:00", "anniversary"),
		window + ", start: monday":                            {{"8h", "monday", "8h"}, {"2006-01-02T15:04:05Z", "monday", "2006-01-02T15:04:05Z"}, {"first use", "monday", "first use"}, {"period: day, week, month or year, and a zone", "period: 7d", "period: week, zone: UTC"}},
		window + ", start: noon":                              {{"8h", "noon", "8h"}, {"2006-01-02T15:04:05Z", "noon", "2006-01-02T15:04:05Z"}, {"first use", "noon", "first use"}},
		sliding + ", start: noon":                             {{"8h", "noon", "8h"}, {"2006-01-02T15:04:05Z", "noon", "2006-01-02T15:04:05Z"}},
		sliding + ", start: monday":                           {{"8h", "monday", "8h"}, {"2006-01-02T15:04:05Z", "monday", "2006-01-02T15:04:05Z"}},
		bucket + ", start: noon":                              {{"leave start out", ", start: noon", ""}, {"use a fixed window", "token bucket, rate: 10, period: 1m, start: noon", "fixed window, rate: 10, period: 1m"}},
		"kind: in flight, capacity: 1, hold: 1m, start: noon": {{"leave start out", ", start: noon", ""}},
		// Periods.
		"kind: fixed window, rate: 10, period: 1M":            {{"period: 1m", "1M", "1m"}, {"period: month and a zone, such as zone: UTC", "1M", "month, zone: UTC"}},
		"kind: fixed window, rate: 10, period: 3M":            {{"period: 3m", "3M", "3m"}, {"period: 3 months and a zone, such as zone: UTC", "3M", "3 months, zone: UTC"}},
		"kind: token bucket, rate: 10, period: 1M":            {{"1m", "1M", "1m"}, {"30d", "1M", "30d"}},
		"kind: token bucket, rate: 10, period: 1mo":           {{"30d", "1mo", "30d"}, {"only a fixed window", "token bucket, rate: 10, period: 1mo", "fixed window, rate: 10, period: month, zone: UTC"}},
		"kind: fixed window, rate: 10, period: 2y":            {{"period: 2 years and a zone, such as zone: UTC", "2y", "2 years, zone: UTC"}, {"730d", "2y", "730d"}},
		"kind: fixed window, rate: 10, period: month":         {{"zone: Europe/Berlin", "month", "month, zone: Europe/Berlin"}, {"zone: UTC", "month", "month, zone: UTC"}, {"zone: per key", "month", "month, zone: per key"}, {"30d", "month", "30d"}},
		"kind: fixed window, rate: 10, period: 1d, zone: UTC": {{"period: day for calendar days", "1d", "day"}, {"leave zone out", ", zone: UTC", ""}},
		bucket + ", timeout: 1M":                              {{"1m", "1M", "1m"}, {"30d", "1M", "30d"}},
		"kind: token bucket, rate: 10, period: 1 day":         {{"1d", "1 day", "1d"}, {"use a fixed window", "token bucket, rate: 10, period: 1 day", "fixed window, rate: 10, period: 1 day, zone: UTC"}},
		"kind: sliding window, rate: 10, period: 2 weeks":     {{"14d", "2 weeks", "14d"}},
		// Kinds.
		"kind: leaky bucket, rate: 10, period: 1m":       {{"token bucket", "leaky bucket", "token bucket"}},
		"kind: GCRA, rate: 10, period: 1m":               {{"token bucket", "GCRA", "token bucket"}},
		"kind: sliding log, rate: 10, period: 1m":        {{"kind: sliding window and precise: true", "sliding log", "sliding window, precise: true"}},
		"kind: sliding window log, rate: 10, period: 1m": {{"kind: sliding window and precise: true", "sliding window log", "sliding window, precise: true"}},
		"kind: quota, rate: 10, period: 1d":              {{"kind: fixed window, with period: month or day and zone: UTC", "quota, rate: 10, period: 1d", "fixed window, rate: 10, period: month, zone: UTC"}},
		"kind: concurrency limit, capacity: 1, hold: 1m": {{"in flight", "concurrency limit", "in flight"}},
		"kind: concurrency, capacity: 1, hold: 1m":       {{"in flight", "concurrency", "in flight"}},
		// Numbers.
		"kind: token bucket, rate: 0.0055, period: 1s":           {{"rate: 11 and period: 33m20s", "rate: 0.0055, period: 1s", "rate: 11, period: 33m20s"}},
		"kind: token bucket, rate: 10,000, period: 1m":           {{"10_000", "10,000", "10_000"}},
		"kind: token bucket, rate: 10,000,000, period: 1m":       {{"10_000_000", "10,000,000", "10_000_000"}},
		"kind: token bucket, rate: {at most: 1,000}, period: 1m": {{"1_000", "1,000", "1_000"}},
		bucket + ", capacity: unlimited":                         {{"1_000_000_000_000_000", "unlimited", "1_000_000_000_000_000"}},
		bucket + ", capacity: none":                              {{"1_000_000_000_000_000", "none", "1_000_000_000_000_000"}},
		bucket + ", shards: off":                                 {{"write a number, at most", "off", "2"}},
		"kind: in flight, hold: 1m, capacity: unlimited":         {{"1_000", "unlimited", "1_000"}},
		"kind: token bucket, rate: none, period: 1m":             {{"leave the limit out", "none", "10"}},
		bucket + ", maxReserved: none":                           {{"leave maxReserved out", ", maxReserved: none", ""}, {"unbounded", "none", "unbounded"}},
		// Keys.
		bucket + ", key: [user, org]":                          {{"key: {user: string, org: string}", "key: [user, org]", "key: {user: string, org: string}"}},
		bucket + ", key: [userID, Org-Name, type, user, user]": {{"key: {userID: string, orgName: string, part3: string, user: string}", "key: [userID, Org-Name, type, user, user]", "key: {userID: string, orgName: string, part3: string, user: string}"}},
		bucket + ", key: {id: uuid.UUID}":                      {{"github.com/google/uuid.UUID", "uuid.UUID", "github.com/google/uuid.UUID"}},
		bucket + ", key: {id: ids.UserID}":                     {{"example.com/ids.UserID", "ids.UserID", "example.com/ids.UserID"}, {"the name alone", "ids.UserID", "UserID"}},
		bucket + ", key: {id: netip.AddrPort}":                 {{"net/netip.AddrPort", "netip.AddrPort", "net/netip.AddrPort"}},
		// Words that are booleans for some readers of YAML.
		bucket + ", mode: false":    {{"off", "false", "off"}},
		bucket + ", mode: no":       {{"off", "mode: no", "mode: off"}},
		bucket + ", penalty: false": {{"off", "false", "off"}},
		bucket + ", penalty: 5":     {{"5s", "penalty: 5", "penalty: 5s"}},
		// Percentages.
		bucket + ", warn: 80":          {{"80%", "warn: 80", "warn: 80%"}},
		bucket + ", warn: [0.8, 100%]": {{"80%", "0.8", "80%"}},
		bucket + ", warn: 1.0":         {{"100%", "1.0", "100%"}},
	} {
		src := "version: 1\nlimits:\n  a: {" + fields + "}\n"
		for _, m := range mends {
			assertMends(t, src, m)
		}
	}
	// Names, and values that depend on the plan.
	const limits = "limits:\n  a: {" + bucket + "}\n"
	for src, mends := range map[string][]mend{
		"version: 1\nplans: [pro-yearly, pro_yearly]\n" + limits:                                                        {{"rename one of the plans", "pro_yearly]", "pro]"}},
		"version: 1\nplans: [group]\n" + limits + "groups:\n  plan: {takes: [a]}\n":                                     {{"set goName on it", "plan: {takes", "plan: {goName: Everything, takes"}, {"rename the plan", "[group]", "[free]"}},
		"version: 1\n" + limits + "  b: {goName: A, " + bucket + "}\n":                                                  {{"set goName on one of them", "goName: A", "goName: B"}},
		"version: 1\nplans: [free, pro]\nlimits:\n  a: {kind: token bucket, period: 1m, rate: {free: 1,000, pro: 2}}\n": {{"1_000", "1,000", "1_000"}},
		"version: 1\nplans: [free, pro]\nlimits:\n  a: {kind: token bucket, period: 1m, rate: {free: 1, pro: none}}\n":  {{"unlimited", "none", "unlimited"}},
	} {
		for _, m := range mends {
			assertMends(t, src, m)
		}
	}
}

func assertMends(t *testing.T, src string, m mend) {
	t.Helper()
	_, ds := Parse("limits.yaml", []byte(src))
	if !assert.NotEmpty(t, ds, "%s", src) {
		return
	}
	assert.True(t, helps(ds, m.said), "%s\nthe help does not say %q: %s", src, m.said, ds[0].Help)
	require.Contains(t, src, m.old)
	_, left := Parse("limits.yaml", []byte(strings.Replace(src, m.old, m.new, 1)))
	for _, d := range left {
		t.Errorf("%s\nafter %q: %s (%s)", src, m.new, d.Message, d.Help)
	}
}

func helps(ds diag.Diagnostics, said string) bool {
	for _, d := range ds {
		if strings.Contains(d.Help, said) {
			return true
		}
	}
	return false
}

// A number with commas in a map with braces is one error, at the number.
func TestCommasOfNumberAreOneDiagnostic(t *testing.T) {
	_, ds := Parse("limits.yaml", []byte(ids.LimitOf("kind: token bucket", "period: 1m", "rate: 1", "overrides: {rate: 10,000,000, capacity: 5}")))
	require.Len(t, ds, 1)
	assert.Equal(t, "sendMessage: rate must not have commas, which separate the fields of a map: 10,000,000", ds[0].Message)
	assert.Equal(t, diag.Pos{Line: 7, Column: 23}, ds[0].Pos)
	assert.Equal(t, diag.Pos{Line: 7, Column: 33}, ds[0].End)
}

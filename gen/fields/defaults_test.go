package fields

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// limitsWith parses a file with defaults and limits by name.
func limitsWith(t *testing.T, defaults, limits string) map[string]*spec.Limit {
	t.Helper()
	file, ds := Parse("limits.yaml", []byte("version: 1\nplans: [free, pro]\nlimits:\n"+limits+"defaults: "+defaults+"\n"))
	require.Empty(t, ds)
	list := map[string]*spec.Limit{}
	for _, l := range file.Limits {
		list[l.Policy.Name] = l
	}
	return list
}

func TestLimitsTakeTheDefaultsThatSuitThem(t *testing.T) {
	const all = "{kind: fixed window, zone: Europe/Berlin, timeout: 250ms, onError: open, jitter: 10s, denyCache: 1s}"
	for _, row := range []struct{ limit, taken string }{
		// A period of fixed length has no zone.
		{"rate: 10, period: 1h", "kind: fixed window, timeout: 250ms, onError: open, jitter: 10s, denyCache: 1s"},
		{"rate: 10, period: month", "kind: fixed window, zone: Europe/Berlin, timeout: 250ms, onError: open, jitter: 10s, denyCache: 1s"},
		// An own value wins, also if it is what holds without defaults, or the default itself.
		{"rate: 10, period: month, zone: per key, onError: closed, timeout: 250ms", "kind: fixed window, jitter: 10s, denyCache: 1s"},
		{"kind: token bucket, rate: 10, period: 1h", "timeout: 250ms, onError: open, jitter: 10s, denyCache: 1s"},
		{"kind: sliding window, rate: 10, period: 1h, precise: true", "timeout: 250ms, onError: open, jitter: 10s, denyCache: 1s"},
		{"kind: in flight, capacity: 5, hold: 1m", "timeout: 250ms, onError: open, jitter: 10s, denyCache: 1s"},
		// With capacity 0 every request reserves, and denied reservations are not cached.
		{"rate: 10, period: 1h, capacity: 0, maxReserved: 5", "kind: fixed window, timeout: 250ms, onError: open, jitter: 10s"},
		{"rate: 10, period: 1h, capacity: {free: 0, pro: 0}, maxReserved: 5", "kind: fixed window, timeout: 250ms, onError: open, jitter: 10s"},
		{"rate: {free: 10, pro: 60}, period: month", "kind: fixed window, zone: Europe/Berlin, timeout: 250ms, onError: open, jitter: 10s, denyCache: 1s"},
	} {
		l := limitsWith(t, all, "  a: {"+row.limit+"}\n")["a"]
		assert.Equal(t, row.taken, FromDefaults(l), row.limit)
		for _, of := range append(l.Plans, l) {
			assert.NoError(t, of.Policy.Validate())
			assert.Equal(t, 10*time.Second, of.Policy.Jitter)
		}
	}
}

// A file with defaults is the file that gives each limit its own.
func TestDefaultsAreAsIfTheLimitsGaveThem(t *testing.T) {
	for _, f := range defaultFields {
		limit := "rate: 50, period: month"
		if f.name != "kind" {
			limit += ", kind: fixed window"
		}
		if f.name != "zone" {
			limit += ", zone: UTC"
		}
		value := f.name + ": " + f.example
		if f.name == "kind" {
			value = "kind: fixed window"
		}
		by, own := limitsWith(t, "{"+value+"}", "  a: {"+limit+"}\n")["a"], limitsWith(t, "{}", "  a: {"+limit+", "+value+"}\n")["a"]
		assert.Equal(t, own.Policy, by.Policy, value)
		assert.Equal(t, value, FromDefaults(by))
		assert.Empty(t, FromDefaults(own))
		assert.Contains(t, by.Places, f.name, "a review points at the value in the defaults")
		for _, v := range Values().Limit {
			assert.Equal(t, v.Effective(own), v.Effective(by), v.Name)
		}
	}
}

func TestUnlimitedPlansTakeNoDefaults(t *testing.T) {
	l := limitsWith(t, "{timeout: 250ms, onError: open}", "  a: {kind: token bucket, rate: {free: 10, pro: unlimited}, period: 1m}\n")["a"]
	assert.Equal(t, 250*time.Millisecond, l.Policy.Timeout)
	assert.Equal(t, runtime.FailOpen, l.Plans[0].Policy.OnError)
	assert.Equal(t, runtime.Policy{Name: "a", Kind: runtime.TokenBucket, Mode: runtime.ModeUnlimited}, l.Plans[1].Policy)
}

// A default is one of the fields of a limit, with its reader and its values.
func TestDefaultsAreFieldsOfALimit(t *testing.T) {
	for _, f := range defaultFields {
		i := 0
		for limitFields[i].name != f.name {
			i++
		}
		assert.Equal(t, reflect.ValueOf(limitFields[i].read).Pointer(), reflect.ValueOf(f.read).Pointer(), f.name)
		assert.Contains(t, limitFields[i].absent, "`defaults`", "%s: absent must say that the defaults are first", f.name)
	}
}

// An error of the defaults is reported once, and not at each limit.
func TestErrorsOfDefaultsAreReportedOnce(t *testing.T) {
	const limits = "limits:\n  a: {rate: 10, period: month}\n  b: {rate: 10, period: month}\n"
	for defaults, want := range map[string][]string{
		"defaults: {kind: bucket, zone: UTC}":        {ids.BadKind.ID},
		"defaults: {kind: fixed window, zone: Rome}": {ids.BadZone.ID},
		"defaults: {knd: fixed window, zone: UTC}":   {ids.UnknownField.ID},
		"defaults: [fixed window, UTC]":              {ids.WrongType.ID},
		"defaults: {rate: 10}":                       {ids.UnknownField.ID},
	} {
		_, ds := Parse("limits.yaml", []byte("version: 1\n"+defaults+"\n"+limits))
		assert.Equal(t, want, idsOf(ds), defaults)
	}
}

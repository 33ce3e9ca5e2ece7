package table

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

func TestPlacesOfKeysInUseStay(t *testing.T) {
	p := &Places{}
	for i := range 3 * mostRecent {
		if i > 0 && i%(mostRecent/2) == 0 {
			// A use of the key.
			place, ok := p.recent["hot"]
			if !ok {
				place, ok = p.older["hot"]
			}
			require.True(t, ok, i)
			p.keepLocked("hot", place)
		}
		if i == 0 {
			p.keepLocked("hot", "-80")
		}
		p.keepLocked(strconv.Itoa(i), "80-")
	}
	assert.LessOrEqual(t, len(p.recent)+len(p.older), 2*mostRecent)
	assert.NotContains(t, p.recent, "0")
	assert.NotContains(t, p.older, "0")
	p.Forget([]string{"hot"})
	assert.NotContains(t, p.recent, "hot")
	assert.NotContains(t, p.older, "hot")
}

func TestRowsOfEachShardAreApart(t *testing.T) {
	row := func(key string) runtime.StoredRow {
		return runtime.StoredRow{Row: runtime.Row{Name: "limit", Key: key}}
	}
	all := []runtime.StoredRow{row("a"), row("b|1"), row("b|2"), row("c")}
	assert.Empty(t, byPlace(nil, nil))
	assert.Equal(t, [][]runtime.StoredRow{all}, byPlace(all, nil))
	assert.Equal(t, [][]runtime.StoredRow{{row("b|1"), row("b|2")}, {row("a"), row("c")}}, byPlace(all, map[string]string{"a": "80-", "b": "-80", "c": "80-"}))
}

func TestCallHasOnePlaceOrIsRefused(t *testing.T) {
	request := func(limit, key string, mode runtime.Mode) runtime.Request {
		return runtime.Request{Key: key, Count: 1, Policy: &runtime.Policy{Name: limit, Kind: runtime.FixedWindow, Rate: 1, Capacity: 1, Period: 1, Mode: mode}}
	}
	places := map[string]string{"a": "-80", "b": "-80", "c": "80-"}
	for _, row := range []struct {
		requests []runtime.Request
		place    string
		refused  *runtime.ShardsError
	}{
		{[]runtime.Request{request("one", "a", 0)}, "-80", nil},
		{[]runtime.Request{request("one", "a", 0), request("two", "b", 0)}, "-80", nil},
		{[]runtime.Request{request("one", "c", runtime.ModeOff), request("two", "b", 0)}, "-80", nil},
		{[]runtime.Request{{Key: "c"}, request("two", "b", 0)}, "-80", nil},
		{[]runtime.Request{request("one", "a", 0), request("two", "a|of team", 0)}, "-80", nil},
		{[]runtime.Request{request("one", "a", 0), request("two", "c", 0)}, "",
			&runtime.ShardsError{Limits: [2]string{"one", "two"}, Shards: [2]string{"-80", "80-"}}},
	} {
		place, err := PlaceOf(&runtime.Call{Requests: row.requests}, places)
		assert.Equal(t, row.place, place)
		if row.refused == nil {
			assert.NoError(t, err)
		} else {
			assert.Equal(t, row.refused, err)
		}
	}
}

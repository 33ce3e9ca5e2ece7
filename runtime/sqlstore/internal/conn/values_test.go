package conn

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

func TestRowsAsJSON(t *testing.T) {
	_, v := Bind([]Stored{
		{Row: runtime.Row{Name: "a", Key: `"\`, Shard: 2}, State: runtime.State{Value: -0.1, TS: 7, Prev: 3}},
		{Row: runtime.Row{Name: "b"}, State: runtime.State{Value: 1e300, TS: -1}},
	})
	assert.Equal(t, `[["a","\"\\",2,"-0.1",7,"3"],["b","",0,"1e+300",-1,"0"]]`, v.Arg(paramRows))
	assert.Equal(t, `[["a","\"\\",2],["b","",0]]`, v.Arg(paramIDs))
	assert.Equal(t, `[["\"\\","-0.1",7],["","1e+300",-1]]`, v.Arg(paramTakes))
	assert.Equal(t, `[["\"\\","-0.1",7,2],["","1e+300",-1,0]]`, v.Arg(paramSharded))
}

func TestRowsAsPostgresArrays(t *testing.T) {
	row := func(name, key string, shard int, value float64, ts int64, prev float64) Stored {
		return Stored{Row: runtime.Row{Name: name, Key: key, Shard: shard}, State: runtime.State{Value: value, TS: ts, Prev: prev}}
	}
	for name, c := range map[string]struct {
		rows []Stored
		want []any
	}{
		"none":        {nil, []any{`{}`, `{}`, `{}`, `{}`, `{}`, `{}`}},
		"keys differ": {[]Stored{row("l", "a", 0, 9, 1, 0), row("l", "b", 0, 9, 1, 0)}, []any{`{}`, `{"a","b"}`, `{}`, `{}`, `{}`, `{}`}},
		"one key":     {[]Stored{row("l", "a", 3, 9, 1, 0), row("l", "a", 4, 9, 1, 0)}, []any{`{}`, `{}`, `{3,4}`, `{}`, `{}`, `{}`}},
		"zeros differ": {[]Stored{row("l", "a", 0, 0, 1, 0), row("l", "b", 0, math.Copysign(0, -1), 1, 0)}, []any{
			`{}`, `{"a","b"}`, `{}`, `{0,-0}`, `{}`, `{}`,
		}},
		"all differs": {[]Stored{row("l", "", 0, 9, 1, 0), row("m", `"\{},NULL`, 1, 1e15, -2, 0.5)}, []any{
			`{"l","m"}`, `{"","\"\\{},NULL"}`, `{0,1}`, `{9,1e+15}`, `{1,-2}`, `{0,0.5}`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			arity, v := Bind(c.rows)
			lists := Query{Params: []Param{listNames, listKeys, listShards, listValues, listInstants, listPrevs}}
			assert.Equal(t, ManyRows, arity)
			assert.Equal(t, c.want, v.Args(&lists))
		})
	}
}

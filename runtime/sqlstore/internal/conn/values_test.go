package conn

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
)

func TestRowsAsJSON(t *testing.T) {
	_, v := Bind([]runtime.StoredRow{
		{Row: runtime.Row{Name: "a", Key: `"\`, Shard: 2}, State: runtime.State{Value: -0.1, TS: 7, Prev: 3}},
		{Row: runtime.Row{Name: "b"}, State: runtime.State{Value: 1e300, TS: -1}},
	})
	assert.Equal(t, `[["a","\"\\",2,"-0.1",7,"3"],["b","",0,"1e+300",-1,"0"]]`, v.Arg(paramRows))
	assert.Equal(t, `[["a","\"\\",2],["b","",0]]`, v.Arg(paramIDs))
	assert.Equal(t, `[["\"\\","-0.1",7],["","1e+300",-1]]`, v.Arg(paramTakes))
	assert.Equal(t, `[["\"\\","-0.1",7,2],["","1e+300",-1,0]]`, v.Arg(paramSharded))
}

func TestRowsToSwap(t *testing.T) {
	row := func(key string, value float64, ts int64, log string) runtime.StoredRow {
		return runtime.StoredRow{Row: runtime.Row{Name: "l", Key: key}, State: runtime.State{Value: value, TS: ts, Prev: 2, Log: log, Exists: true}}
	}
	long := "penalties and other things"
	v := BindSwap([]runtime.StoredRow{row("a", -2, 7, "x"), row("b", -3, 7, "")}, []runtime.StoredRow{row("a", -1, 5, long), row("b", -1, 6, "")})
	assert.Equal(t, `[["l","a",0,"-2",7,"2","78","-1",5,"2","70656e616c7469657320"],["l","b",0,"-3",7,"2","","-1",6,"2",""]]`, v.Arg(paramSwaps))
	lists := Query{Params: []Param{listValues, listInstants, listOldValues, listOldInstants, listOldPrevs, listOldPenalties, ParamOldValue, ParamOldPrev}}
	assert.Equal(t, []any{`{-2,-3}`, `{}`, `{}`, `{5,6}`, `{}`, `{"\\x70656e616c7469657320","\\x"}`, -1.0, 2.0}, v.Args(&lists))
}

func TestRowsAsPostgresArrays(t *testing.T) {
	row := func(name, key string, shard int, value float64, ts int64, prev float64) runtime.StoredRow {
		return runtime.StoredRow{Row: runtime.Row{Name: name, Key: key, Shard: shard}, State: runtime.State{Value: value, TS: ts, Prev: prev}}
	}
	for name, c := range map[string]struct {
		rows []runtime.StoredRow
		want []any
	}{
		"none":        {nil, []any{`{}`, `{}`, `{}`, `{}`, `{}`, `{}`}},
		"keys differ": {[]runtime.StoredRow{row("l", "a", 0, 9, 1, 0), row("l", "b", 0, 9, 1, 0)}, []any{`{}`, `{"a","b"}`, `{}`, `{}`, `{}`, `{}`}},
		"one key":     {[]runtime.StoredRow{row("l", "a", 3, 9, 1, 0), row("l", "a", 4, 9, 1, 0)}, []any{`{}`, `{}`, `{3,4}`, `{}`, `{}`, `{}`}},
		"zeros differ": {[]runtime.StoredRow{row("l", "a", 0, 0, 1, 0), row("l", "b", 0, math.Copysign(0, -1), 1, 0)}, []any{
			`{}`, `{"a","b"}`, `{}`, `{0,-0}`, `{}`, `{}`,
		}},
		"all differs": {[]runtime.StoredRow{row("l", "", 0, 9, 1, 0), row("m", `"\{},NULL`, 1, 1e15, -2, 0.5)}, []any{
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

func TestLiteralsMeanTheSameInEverySQLMode(t *testing.T) {
	q, err := Compile(dialect.MySQL, "SELECT :name, :value, :period", RowSource{}, "", "")
	require.NoError(t, err)
	v := new(Values)
	v.Of[ParamName], v.Of[ParamValue], v.Of[ParamPeriod] = `a?'"\`, -1e300/3, int64(-5)
	assert.Equal(t, `SELECT _utf8mb4 X'613f27225c', -3.3333333333333335e+299, -5`, q.Literal(v))
	v.Of[ParamValue] = 2.0
	assert.Contains(t, q.Literal(v), " 2e+00, ")
}

// A vtgate writes the doubles of prepared statements without an exponent, and MySQL reads 30 decimals of such numbers.
func TestStatementsForVitessHaveLiterals(t *testing.T) {
	d := dialect.Vitess
	q, err := newQueries(d, "", "")
	require.NoError(t, err)
	row := runtime.StoredRow{Row: runtime.Row{Name: "n", Key: `a?'`}, State: runtime.State{Value: -2.8384976946536896e-15, TS: 7, Prev: -1, Log: "l"}}
	other := runtime.StoredRow{Row: runtime.Row{Name: "n", Key: "k|2", Shard: 1}, State: runtime.State{Prev: -2}}
	_, one := Bind([]runtime.StoredRow{row})
	_, two := Bind([]runtime.StoredRow{row, other})
	assert.Contains(t, q[WriteRows][OneRow].Literal(one), "VALUES (X'613f27', X'6e', X'613f27', 0, -2.8384976946536896e-15, 7, -1e+00, X'6c')")
	assert.Contains(t, q[WriteRows][ManyRows].Literal(two),
		"VALUES (X'613f27',X'6e',X'613f27',0,-2.8384976946536896e-15,7,-1e+00,X'6c'),(X'6b',X'6e',X'6b7c32',1,0e+00,0,-2e+00,NULL)")
	assert.Contains(t, q[DeleteRows][OneRow].Literal(one), "first_part IN (X'613f27') AND (name, `key`, shard) IN ((X'6e', X'613f27', 0))")
	assert.Contains(t, q[DeleteRows][ManyRows].Literal(two), "first_part IN (X'613f27',X'6b') AND (name, `key`, shard) IN ((X'6e',X'613f27',0),(X'6e',X'6b7c32',1))")
}

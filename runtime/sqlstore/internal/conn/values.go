package conn

import (
	"encoding/hex"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
)

// Param is a parameter of a dialect's statements.
type Param int

const (
	ParamName Param = iota
	paramKey
	paramShard
	ParamValue
	paramTS
	paramPrev
	ParamLog
	ParamCapacity
	ParamTwice
	ParamRate
	ParamPeriod
	ParamDebt
	ParamLowest
	ParamAllowance
	ParamUnit
	ParamFresh
	ParamCount
	ParamOldValue
	ParamOldTS
	ParamOldPrev
	ParamOldPenalty
	ParamDurability
	paramFirstPart

	// These are all rows of a statement: see rowEncodings.
	paramRows
	paramLogged
	paramSwaps
	paramEach
	paramIDs
	paramTakes
	paramSharded
	paramOnly
	paramTuples
	paramLoggedTuples
	paramKeyTuples
	paramParts
	listNames
	listKeys
	listShards
	listValues
	listInstants
	listPrevs
	listLogs
	listOldValues
	listOldInstants
	listOldPrevs
	listOldPenalties
	listCapacities
	listRates
	listPeriods
	listDebts
	listLowests
	listAllowances
	paramTotal
)

var paramNames = [paramTotal]string{
	ParamName: "name", paramKey: "key", paramShard: "shard", ParamValue: "value", paramTS: "at_ns", paramPrev: "prev", ParamLog: "log",
	ParamCapacity: "capacity", ParamTwice: "twice", ParamRate: "rate", ParamPeriod: "period", ParamDebt: "debt", ParamLowest: "lowest",
	ParamAllowance: "allowance", ParamUnit: "unit", ParamFresh: "fresh", ParamCount: "count", ParamOldValue: "oldvalue",
	ParamOldTS: "oldat", ParamOldPrev: "oldprev", ParamOldPenalty: "oldpenalty", ParamDurability: "durability",
	paramFirstPart: "first_part", paramRows: "rows", paramLogged: "logged", paramIDs: "ids", paramTakes: "takes", paramSharded: "sharded", paramOnly: "only",
	paramTuples: "tuples", paramLoggedTuples: "loggedtuples", paramKeyTuples: "keytuples", paramParts: "parts",
	listNames: "names", listKeys: "keys", listShards: "shards", listValues: "values", listInstants: "instants", listPrevs: "prevs",
	listLogs: "logs", paramSwaps: "swaps", listOldValues: "oldvalues", listOldInstants: "oldinstants", listOldPrevs: "oldprevs",
	listOldPenalties: "oldpenalties", paramEach: "each", listCapacities: "capacities", listRates: "rates", listPeriods: "periods",
	listDebts: "debts", listLowests: "lowests", listAllowances: "allowances",
}

// Query is a statement as a database takes it, and its parameters in their order.
type Query struct {
	Text   string
	Params []Param
	// waits: the statement may wait for a lock. literal: it is sent with its arguments as literals.
	waits, literal bool
}

// Arity is how many rows a statement has: one, as parameters of their own, or many, in JSON or lists.
type Arity int

const (
	OneRow Arity = iota
	ManyRows
	arityCount
)

// Values are the values of a statement's parameters.
type Values struct {
	Of [paramRows]any
	// rows are encoded only when they are sent, because each database has its own encoding.
	rows []runtime.StoredRow
	// old are the rows as they were, of which only the penalty is left of the log, or nil.
	old []runtime.StoredRow
	// Takes are those of TakeEach, one from each row.
	Takes []meter.Upsert
}

// Args returns the arguments of a query.
func (v *Values) Args(q *Query) []any {
	all := make([]any, len(q.Params))
	for i, p := range q.Params {
		all[i] = v.Arg(p)
	}
	return all
}

// Bind returns the arity of a statement for rows, and the values of its parameters: several rows are one JSON text or a
// few lists, so that any number of them is one statement.
func Bind(rows []runtime.StoredRow) (Arity, *Values) {
	if len(rows) == 0 {
		return ManyRows, &Values{}
	}
	r, s := rows[0].Row, rows[0].State
	v := &Values{rows: rows, Of: [paramRows]any{
		ParamName: r.Name, paramKey: r.Key, paramShard: r.Shard, ParamValue: s.Value, paramTS: s.TS, paramPrev: s.Prev,
	}}
	if s.Log != "" {
		v.Of[ParamLog] = []byte(s.Log)
	}
	if len(rows) == 1 {
		return OneRow, v
	}
	return ManyRows, v
}

// BindSwap is Bind for SwapRows, which writes the rows if they are still as the old ones.
func BindSwap(rows, old []runtime.StoredRow) *Values {
	for i := range old {
		log := &old[i].State.Log
		*log = (*log)[:min(len(*log), meter.PenaltyLength)]
	}
	_, v := Bind(rows)
	was := old[0].State
	v.old, v.Of[ParamOldValue], v.Of[ParamOldTS], v.Of[ParamOldPrev], v.Of[ParamOldPenalty] = old, was.Value, was.TS,
		was.Prev, []byte(was.Log)
	return v
}

// BindTake is Bind for a take from each row, of which this is one. Its numbers are those that all rows have in common.
func BindTake(rows []runtime.StoredRow, u *meter.Upsert) (Arity, *Values) {
	arity, v := Bind(rows)
	v.Of[ParamUnit], v.Of[ParamFresh] = float64(meter.TotalUnit), u.Fresh
	v.Of[ParamCapacity], v.Of[ParamTwice], v.Of[ParamRate], v.Of[ParamPeriod] = u.Capacity, 2*u.Capacity, u.Rate, u.Period
	v.Of[ParamDebt], v.Of[ParamLowest], v.Of[ParamAllowance] = u.Debt, u.Lowest, u.Allowance
	return arity, v
}

// Arg returns the argument for a parameter.
func (v *Values) Arg(p Param) any {
	if encode := rowEncodings[p]; encode != nil {
		return encode(v.rows)
	}
	if encode := oldEncodings[p]; encode != nil {
		return encode(v.old)
	}
	if encode := takeEncodings[p]; encode != nil {
		return encode(v.Takes)
	}
	switch p {
	case paramEach:
		return takesAsJSON(v.rows, v.Takes)
	case paramSwaps:
		return swapsAsJSON(v.rows, v.old)
	case paramFirstPart:
		return FirstPart(v.Of[paramKey].(string))
	}
	return v.Of[p]
}

// FirstPart returns the first part of a key as it is stored. The rows of keys that begin with the same part are on one
// shard.
func FirstPart(key string) string {
	part, _, _ := strings.Cut(key, "|")
	return part
}

// column appends a column of a row, or several.
type column func([]byte, *runtime.StoredRow) []byte

// rowEncodings encode several rows: as JSON for SQLite, MySQL and MariaDB, and as one list per column for Postgres.
var rowEncodings = [paramTotal]func([]runtime.StoredRow) string{
	paramRows:    asJSON(appendName, appendKey, appendShard, appendValue, appendTS, appendPrev),
	paramLogged:  asJSON(appendName, appendKey, appendShard, appendValue, appendTS, appendPrev, appendLog),
	paramIDs:     asJSON(appendName, appendKey, appendShard),
	paramTakes:   asJSON(appendKey, appendValue, appendTS),
	paramSharded: asJSON(appendKey, appendValue, appendTS, appendShard),
	paramOnly:    asJSON(appendKey),
	paramTuples:  asTuples(tuplePart, tupleKey, tupleState), paramLoggedTuples: asTuples(tuplePart, tupleKey, tupleState, tupleLog),
	paramKeyTuples: asTuples(tupleKey), paramParts: asList(",", tuplePart),
	listNames:    listOf(func(r *runtime.StoredRow) string { return r.Row.Name }, appendString),
	listKeys:     listOf(func(r *runtime.StoredRow) string { return r.Row.Key }, appendString),
	listShards:   listOf(func(r *runtime.StoredRow) int64 { return int64(r.Row.Shard) }, appendInt),
	listValues:   listOf(func(r *runtime.StoredRow) uint64 { return math.Float64bits(r.State.Value) }, appendFloat),
	listInstants: listOf(func(r *runtime.StoredRow) int64 { return r.State.TS }, appendInt),
	listPrevs:    listOf(func(r *runtime.StoredRow) uint64 { return math.Float64bits(r.State.Prev) }, appendFloat),
	listLogs:     listOf(func(r *runtime.StoredRow) string { return r.State.Log }, appendBytes),
}

// oldEncodings encode several rows as they were, for Postgres.
var oldEncodings = [paramTotal]func([]runtime.StoredRow) string{
	listOldValues:    rowEncodings[listValues],
	listOldInstants:  rowEncodings[listInstants],
	listOldPrevs:     rowEncodings[listPrevs],
	listOldPenalties: rowEncodings[listLogs],
}

// takeEncodings encode the numbers of takes, for Postgres.
var takeEncodings = [paramTotal]func([]meter.Upsert) string{
	listCapacities: numbersOf(func(u *meter.Upsert) float64 { return u.Capacity }),
	listRates:      numbersOf(func(u *meter.Upsert) float64 { return u.Rate }),
	listPeriods:    listOf(func(u *meter.Upsert) int64 { return u.Period }, appendInt),
	listDebts:      numbersOf(func(u *meter.Upsert) float64 { return u.Debt }),
	listLowests:    numbersOf(func(u *meter.Upsert) float64 { return u.Lowest }),
	listAllowances: numbersOf(func(u *meter.Upsert) float64 { return u.Allowance }),
}

func numbersOf(number func(*meter.Upsert) float64) func([]meter.Upsert) string {
	return listOf(func(u *meter.Upsert) uint64 { return math.Float64bits(number(u)) }, appendFloat)
}

// takesAsJSON encodes takes from rows, for MySQL and MariaDB.
func takesAsJSON(rows []runtime.StoredRow, takes []meter.Upsert) string {
	b := append(make([]byte, 0, 160*len(rows)), '[')
	for i := range rows {
		if i > 0 {
			b = append(b, ',')
		}
		r, u := &rows[i], &takes[i]
		b = append(appendKey(append(b, '['), r), ',')
		b = append(appendValue(b, r), ',')
		b = append(appendTS(b, r), ',')
		b = append(appendDouble(b, u.Capacity), ',')
		b = append(appendDouble(b, u.Rate), ',')
		b = append(appendInt(b, u.Period), ',')
		b = append(appendDouble(b, u.Debt), ',')
		b = append(appendDouble(b, u.Lowest), ',')
		b = append(appendDouble(b, u.Allowance), ']')
	}
	return string(append(b, ']'))
}

// swapsAsJSON encodes rows with their old states, for MySQL and MariaDB.
func swapsAsJSON(rows, old []runtime.StoredRow) string {
	b := append(make([]byte, 0, 160*len(rows)), '[')
	for i := range rows {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '[')
		for _, appendTo := range [...]column{appendName, appendKey, appendShard} {
			b = append(appendTo(b, &rows[i]), ',')
		}
		b = appendState(b, &rows[i])
		b = append(b, ',')
		b = appendState(b, &old[i])
		b = append(b, ']')
	}
	return string(append(b, ']'))
}

func appendState(b []byte, r *runtime.StoredRow) []byte {
	b = append(appendValue(b, r), ',')
	b = append(appendTS(b, r), ',')
	b = append(appendPrev(b, r), ',')
	return appendLog(b, r)
}

// asTuples returns a function that encodes columns of rows as lists of literals of MySQL, without the first and the last
// parenthesis, which the statement has.
func asTuples(columns ...column) func([]runtime.StoredRow) string { return asList("),(", columns...) }

// asList returns a function that encodes columns of rows as literals of MySQL, with a text between two rows.
func asList(between string, columns ...column) func([]runtime.StoredRow) string {
	return func(rows []runtime.StoredRow) string {
		b := make([]byte, 0, 120*len(rows))
		for i := range rows {
			if i > 0 {
				b = append(b, between...)
			}
			b = columns[0](b, &rows[i])
			for _, appendTo := range columns[1:] {
				b = appendTo(append(b, ','), &rows[i])
			}
		}
		return string(b)
	}
}

func tuplePart(b []byte, r *runtime.StoredRow) []byte { return appendHex(b, FirstPart(r.Row.Key)) }

func tupleKey(b []byte, r *runtime.StoredRow) []byte {
	b = append(appendHex(b, r.Row.Name), ',')
	b = append(appendHex(b, r.Row.Key), ',')
	return appendShard(b, r)
}

func tupleState(b []byte, r *runtime.StoredRow) []byte {
	b = append(appendExponent(b, r.State.Value), ',')
	b = append(appendTS(b, r), ',')
	return appendExponent(b, r.State.Prev)
}

func tupleLog(b []byte, r *runtime.StoredRow) []byte {
	if r.State.Log == "" {
		return append(b, "NULL"...)
	}
	return appendHex(b, r.State.Log)
}

// appendHex appends bytes as a literal, in which quotes and backslashes cannot depend on the session's sql_mode.
func appendHex(b []byte, bytes string) []byte {
	return append(hex.AppendEncode(append(b, "X'"...), []byte(bytes)), '\'')
}

// appendExponent appends a number with an exponent, without which MySQL takes it for a DECIMAL.
func appendExponent(b []byte, x float64) []byte { return strconv.AppendFloat(b, x, 'e', -1, 64) }

// asJSON returns a function that encodes columns of rows as a JSON list: of a list for each row, unless it is one column.
func asJSON(columns ...column) func([]runtime.StoredRow) string {
	begin, end := "[", "]"
	if len(columns) == 1 {
		begin, end = "", ""
	}
	return func(rows []runtime.StoredRow) string {
		b := append(make([]byte, 0, 80*len(rows)), '[')
		for i := range rows {
			if i > 0 {
				b = append(b, ',')
			}
			b = columns[0](append(b, begin...), &rows[i])
			for _, appendTo := range columns[1:] {
				b = appendTo(append(b, ','), &rows[i])
			}
			b = append(b, end...)
		}
		return string(append(b, ']'))
	}
}

func appendName(b []byte, r *runtime.StoredRow) []byte  { return appendString(b, r.Row.Name) }
func appendKey(b []byte, r *runtime.StoredRow) []byte   { return appendString(b, r.Row.Key) }
func appendShard(b []byte, r *runtime.StoredRow) []byte { return appendInt(b, int64(r.Row.Shard)) }
func appendValue(b []byte, r *runtime.StoredRow) []byte { return appendDouble(b, r.State.Value) }
func appendTS(b []byte, r *runtime.StoredRow) []byte    { return appendInt(b, r.State.TS) }
func appendPrev(b []byte, r *runtime.StoredRow) []byte  { return appendDouble(b, r.State.Prev) }
func appendLog(b []byte, r *runtime.StoredRow) []byte {
	return append(hex.AppendEncode(append(b, '"'), []byte(r.State.Log)), '"')
}

// appendBytes appends an element of a Postgres array of bytes.
func appendBytes(b []byte, bytes string) []byte {
	b = append(b, `"\\x`...)
	return append(hex.AppendEncode(b, []byte(bytes)), '"')
}

// Log is the log of a row as a statement selects it: bytes, or a text of hexadecimal digits.
type Log string

// Scan implements [sql.Scanner].
func (l *Log) Scan(column any) error {
	switch log := column.(type) {
	case nil:
		*l = ""
	case []byte:
		*l = Log(log)
	case string:
		b, err := hex.DecodeString(log)
		*l = Log(b)
		return err
	default:
		return fmt.Errorf("the column log is a %T instead of bytes or a text of hexadecimal digits", column)
	}
	return nil
}

// appendDouble appends a number as a JSON string, because MySQL 8.0 may read the last digit of a JSON number differently.
func appendDouble(b []byte, x float64) []byte {
	b = append(b, '"')
	b = strconv.AppendFloat(b, x, 'g', -1, 64)
	return append(b, '"')
}

// appendString appends a text in quotes. It need not escape control characters, because names and keys have none.
// Elements of Postgres arrays have the same form.
func appendString(b []byte, text string) []byte {
	b = append(b, '"')
	for {
		i := strings.IndexAny(text, `"\`)
		if i < 0 {
			break
		}
		b = append(b, text[:i]...)
		b = append(b, '\\', text[i])
		text = text[i+1:]
	}
	b = append(b, text...)
	return append(b, '"')
}

// listOf returns a function that encodes a column of rows as a Postgres array, which is empty if the column is the same
// for all of several, or of none. In quotes, arrays escape the same characters as JSON.
func listOf[R any, T comparable](column func(*R) T, appendTo func([]byte, T) []byte) func([]R) string {
	return func(rows []R) string {
		if len(rows) != 1 && allEqual(rows, column) {
			return "{}"
		}
		b := make([]byte, 0, 32*len(rows))
		for i := range rows {
			b = append(b, ',')
			b = appendTo(b, column(&rows[i]))
		}
		// The first element has a comma before it, like the others.
		b[0] = '{'
		return string(append(b, '}'))
	}
}

func allEqual[R any, T comparable](rows []R, column func(*R) T) bool {
	for i := range rows {
		if column(&rows[i]) != column(&rows[0]) {
			return false
		}
	}
	return true
}

func appendInt(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) }

// appendFloat appends the number with these bits. It takes bits because 0 and -0 are equal as numbers, and must not be
// taken for the same value.
func appendFloat(b []byte, bits uint64) []byte {
	return strconv.AppendFloat(b, math.Float64frombits(bits), 'g', -1, 64)
}

// RowSource is the texts that select a statement's rows, the rows with their logs, their keys only, the rows with their old
// states, the rows with the numbers of takes, and the first parts of their keys.
type RowSource struct{ rows, logged, keys, swapped, numbered, parts string }

var paramPattern = regexp.MustCompile(`:[a-z_]+`)

// Compile returns a statement for a table in a schema, see [dialect.Dialect.TextIn].
func Compile(d dialect.Dialect, statement string, source RowSource, schema, table string) (_ Query, err error) {
	if statement == "" {
		return Query{}, nil
	}
	rows := strings.NewReplacer("{rows}", "("+strings.TrimSpace(source.rows)+")",
		"{logged}", "("+strings.TrimSpace(source.logged)+")", "{keys}", "("+strings.TrimSpace(source.keys)+")",
		"{swapped}", "("+strings.TrimSpace(source.swapped)+")", "{numbered}", "("+strings.TrimSpace(source.numbered)+")", "{parts}", "("+source.parts+")")
	q := Query{literal: d.Literals}
	// Before the schema is filled in, whose name may contain a colon.
	numbered := paramPattern.ReplaceAllStringFunc(rows.Replace(statement), func(written string) string {
		i := slices.Index(paramNames[:], written[1:])
		if i < 0 {
			err = fmt.Errorf("dialect %q: a statement has the unknown parameter %s", d.Name, written)
		}
		return placeholder(d, &q, Param(i))
	})
	if err != nil {
		return Query{}, err
	}
	q.Text, err = d.TextIn(schema, numbered, table)
	return q, err
}

// placeholder adds a parameter to a query, and returns how it is written there.
func placeholder(d dialect.Dialect, q *Query, p Param) string {
	if !d.Numbered {
		// A ? cannot be repeated, so its value is passed again.
		q.Params = append(q.Params, p)
		return "?"
	}
	i := slices.Index(q.Params, p)
	if i < 0 {
		i = len(q.Params)
		q.Params = append(q.Params, p)
	}
	return "$" + strconv.Itoa(i+1)
}

// Literal returns the query with its arguments as literals of MySQL. Strings are hexadecimal, because quotes and
// backslashes depend on the session's sql_mode.
func (q *Query) Literal(v *Values) string {
	var b []byte
	rest := q.Text
	for _, p := range q.Params {
		before, after, _ := strings.Cut(rest, "?")
		b = append(b, before...)
		switch arg := v.Arg(p); p {
		case paramTuples, paramLoggedTuples, paramKeyTuples, paramParts:
			b = append(b, arg.(string)...)
		default:
			b = appendLiteral(b, arg, !q.literal)
		}
		rest = after
	}
	return string(append(b, rest...))
}

// appendLiteral appends a value as a literal of MySQL. Texts are bytes unless they are in UTF-8 by an introducer.
func appendLiteral(b []byte, value any, introduced bool) []byte {
	switch value := value.(type) {
	case nil:
		return append(b, "NULL"...)
	case string:
		if introduced {
			b = append(b, "_utf8mb4 "...)
		}
		return appendHex(b, value)
	case []byte:
		return appendHex(b, string(value))
	case float64:
		return appendExponent(b, value)
	}
	return fmt.Append(b, value)
}

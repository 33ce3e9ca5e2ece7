package sqlstore

import (
	"encoding/hex"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// param is a parameter of a dialect's statements.
type param int

const (
	paramName param = iota
	paramKey
	paramShard
	paramValue
	paramTS
	paramPrev
	paramRows
	paramIDs
	paramTakes
	paramOnly
	paramCapacity
	paramTwice
	paramRate
	paramPeriod
	paramDebt
	paramLowest
	paramAllowance
	paramUnit
	paramFresh
	paramCount
	paramOldValue
	paramOldTS
	paramOldPrev
	paramDurability
	listNames
	listKeys
	listShards
	listValues
	listInstants
	listPrevs
	paramTotal
)

var paramNames = [paramTotal]string{
	"name", "key", "shard", "value", "ts", "prev", "rows", "ids", "takes", "only", "capacity", "twice", "rate", "period", "debt", "lowest", "allowance",
	"unit", "fresh",
	"count", "oldvalue", "oldts", "oldprev", "durability", "names", "keys", "shards", "values", "instants", "prevs",
}

// query is a statement as a database takes it, and its parameters in their order.
type query struct {
	sql    string
	params []param
}

// arity is how many rows a statement has: one, as parameters of their own, or many, in JSON or lists.
type arity int

const (
	oneRow arity = iota
	manyRows
	arityCount
)

// values are the values of a statement's parameters.
type values struct {
	of [paramTotal]any
}

// args returns the arguments of a query.
func (v *values) args(q *query) []any {
	all := make([]any, len(q.params))
	for i, p := range q.params {
		all[i] = v.arg(p)
	}
	return all
}

// stored is a row with its state.
type stored struct {
	row   runtime.Row
	state runtime.State
}

// bind returns the arity of a statement for rows, and the values of its parameters: several rows are one JSON text or a
// few lists, so that any number of them is one statement.
func bind(rows []stored) (arity, *values) {
	v := new(values)
	v.of[paramRows] = rows
	if len(rows) > 0 {
		r, s := rows[0].row, rows[0].state
		v.of[paramName], v.of[paramKey], v.of[paramShard] = r.Name, r.Key, r.Shard
		v.of[paramValue], v.of[paramTS], v.of[paramPrev] = s.Value, s.TS, s.Prev
	}
	if len(rows) == 1 {
		return oneRow, v
	}
	return manyRows, v
}

// arg returns the argument for a parameter.
func (v *values) arg(p param) any {
	// Rows are encoded only now, because each database has its own encoding.
	encode := rowEncodings[p]
	if encode == nil {
		return v.of[p]
	}
	rows, _ := v.of[paramRows].([]stored)
	return encode(rows)
}

// rowEncodings encode several rows: as JSON for SQLite, MySQL and MariaDB, and as one list per column for Postgres.
var rowEncodings = [paramTotal]func([]stored) string{
	paramRows:    func(rows []stored) string { return asJSON(rows, appendRow) },
	paramIDs:     func(rows []stored) string { return asJSON(rows, appendID) },
	paramTakes:   func(rows []stored) string { return asJSON(rows, appendTake) },
	paramOnly:    func(rows []stored) string { return asJSON(rows, appendKey) },
	listNames:    listOf(func(r *stored) string { return r.row.Name }, appendString),
	listKeys:     listOf(func(r *stored) string { return r.row.Key }, appendString),
	listShards:   listOf(func(r *stored) int64 { return int64(r.row.Shard) }, appendInt),
	listValues:   listOf(func(r *stored) uint64 { return math.Float64bits(r.state.Value) }, appendFloat),
	listInstants: listOf(func(r *stored) int64 { return r.state.TS }, appendInt),
	listPrevs:    listOf(func(r *stored) uint64 { return math.Float64bits(r.state.Prev) }, appendFloat),
}

// asJSON encodes rows as a JSON list.
func asJSON(rows []stored, appendTo func([]byte, *stored) []byte) string {
	b := make([]byte, 0, 80*len(rows))
	b = append(b, '[')
	for i := range rows {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendTo(b, &rows[i])
	}
	return string(append(b, ']'))
}

// appendRow appends all columns of a row as a JSON list.
func appendRow(b []byte, r *stored) []byte {
	b = append(appendIDColumns(append(b, '['), r), ',')
	b = appendDouble(b, r.state.Value)
	b = append(b, ',')
	b = strconv.AppendInt(b, r.state.TS, 10)
	b = append(b, ',')
	b = appendDouble(b, r.state.Prev)
	return append(b, ']')
}

// appendTake appends the columns key, value and ts of a row as a JSON list.
func appendTake(b []byte, r *stored) []byte {
	b = append(b, '[')
	b = appendString(b, r.row.Key)
	b = append(b, ',')
	b = appendDouble(b, r.state.Value)
	b = append(b, ',')
	b = strconv.AppendInt(b, r.state.TS, 10)
	return append(b, ']')
}

// appendKey appends the key of a row.
func appendKey(b []byte, r *stored) []byte { return appendString(b, r.row.Key) }

// appendID appends the columns name, key and shard of a row as a JSON list.
func appendID(b []byte, r *stored) []byte {
	return append(appendIDColumns(append(b, '['), r), ']')
}

func appendIDColumns(b []byte, r *stored) []byte {
	b = append(appendString(b, r.row.Name), ',')
	b = append(appendString(b, r.row.Key), ',')
	return strconv.AppendInt(b, int64(r.row.Shard), 10)
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
// for all. In quotes, arrays escape the same characters as JSON.
func listOf[T comparable](column func(*stored) T, appendTo func([]byte, T) []byte) func([]stored) string {
	return func(rows []stored) string {
		if allEqual(rows, column) {
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

func allEqual[T comparable](rows []stored, column func(*stored) T) bool {
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

// rowSource is the texts that select a statement's rows, and their keys only.
type rowSource struct{ rows, keys string }

var paramPattern = regexp.MustCompile(`:[a-z]+`)

// compile returns a statement for a table.
func (d Dialect) compile(statement string, source rowSource, table string) (query, error) {
	if statement == "" {
		return query{}, nil
	}
	rows := strings.NewReplacer("{rows}", "("+strings.TrimSpace(source.rows)+")", "{keys}", "("+strings.TrimSpace(source.keys)+")")
	sql, err := d.Text(rows.Replace(statement), table)
	if err != nil {
		return query{}, err
	}
	q := query{}
	q.sql = paramPattern.ReplaceAllStringFunc(sql, func(written string) string {
		i := slices.Index(paramNames[:], written[1:])
		if i < 0 {
			err = fmt.Errorf("dialect %q: a statement has the unknown parameter %s", d.Name, written)
		}
		return d.placeholder(&q, param(i))
	})
	return q, err
}

// placeholder adds a parameter to a query, and returns how it is written there.
func (d Dialect) placeholder(q *query, p param) string {
	if !d.Numbered {
		// A ? cannot be repeated, so its value is passed again.
		q.params = append(q.params, p)
		return "?"
	}
	i := slices.Index(q.params, p)
	if i < 0 {
		i = len(q.params)
		q.params = append(q.params, p)
	}
	return "$" + strconv.Itoa(i+1)
}

// literal returns the query with its arguments as literals of MySQL. Strings are hexadecimal, because quotes and
// backslashes depend on the session's sql_mode.
func (q *query) literal(v *values) string {
	var b []byte
	rest := q.sql
	for _, p := range q.params {
		before, after, _ := strings.Cut(rest, "?")
		b = append(b, before...)
		switch arg := v.arg(p).(type) {
		case string:
			b = append(hex.AppendEncode(append(b, "_utf8mb4 X'"...), []byte(arg)), '\'')
		case float64:
			// With an exponent it is a DOUBLE, and without one a DECIMAL.
			b = strconv.AppendFloat(b, arg, 'e', -1, 64)
		default:
			b = fmt.Append(b, arg)
		}
		rest = after
	}
	return string(append(b, rest...))
}

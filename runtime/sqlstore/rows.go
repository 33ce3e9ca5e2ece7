package sqlstore

import (
	"math"
	"strconv"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// stored is a row with its state.
type stored struct {
	row   runtime.Row
	state runtime.State
}

// bind returns the form in which a statement takes rows, and the values of its parameters: a single row has
// parameters of its own, several are one text in JSON or a few lists, so that any number of them is one statement.
func bind(rows []stored) (form, *values) {
	v := new(values)
	v[paramRows] = rows
	if len(rows) > 0 {
		r, s := rows[0].row, rows[0].state
		v[paramName], v[paramKey], v[paramShard] = r.Name, r.Key, r.Shard
		v[paramValue], v[paramTS], v[paramPrev] = s.Value, s.TS, s.Prev
	}
	if len(rows) == 1 {
		return oneRow, v
	}
	return manyRows, v
}

// arg returns the argument for a parameter. What stands for several rows is written when the statement is run, as that
// wants it.
func (v *values) arg(p param) any {
	write := manyOf[p]
	if write == nil {
		return v[p]
	}
	rows, _ := v[paramRows].([]stored)
	return write(rows)
}

// manyOf has how several rows are written, for the parameters that stand for them.
var manyOf = [paramTotal]func([]stored) string{
	paramRows:    func(rows []stored) string { return asJSON(rows, appendRow) },
	paramIDs:     func(rows []stored) string { return asJSON(rows, appendID) },
	paramTakes:   func(rows []stored) string { return asJSON(rows, appendTake) },
	listNames:    listOf(func(r *stored) string { return r.row.Name }, appendString),
	listKeys:     listOf(func(r *stored) string { return r.row.Key }, appendString),
	listShards:   listOf(func(r *stored) int64 { return int64(r.row.Shard) }, appendInt),
	listValues:   listOf(func(r *stored) uint64 { return math.Float64bits(r.state.Value) }, appendFloat),
	listInstants: listOf(func(r *stored) int64 { return r.state.TS }, appendInt),
	listPrevs:    listOf(func(r *stored) uint64 { return math.Float64bits(r.state.Prev) }, appendFloat),
}

// asJSON writes rows as a list.
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

// appendRow writes all columns of a row as a list.
func appendRow(b []byte, r *stored) []byte {
	b = appendID(b, r)
	b = append(b[:len(b)-1], ',')
	b = appendDouble(b, r.state.Value)
	b = append(b, ',')
	b = strconv.AppendInt(b, r.state.TS, 10)
	b = append(b, ',')
	b = appendDouble(b, r.state.Prev)
	return append(b, ']')
}

// appendTake writes the columns key, value and ts of a row as a list.
func appendTake(b []byte, r *stored) []byte {
	b = append(b, '[')
	b = appendString(b, r.row.Key)
	b = append(b, ',')
	b = appendDouble(b, r.state.Value)
	b = append(b, ',')
	b = strconv.AppendInt(b, r.state.TS, 10)
	return append(b, ']')
}

// appendDouble writes a number as a text in JSON: MySQL 8.0 may read the last digit of a number otherwise than
// that of a text.
func appendDouble(b []byte, x float64) []byte {
	b = append(b, '"')
	b = strconv.AppendFloat(b, x, 'g', -1, 64)
	return append(b, '"')
}

// appendID writes the columns name, key and shard of a row as a list.
func appendID(b []byte, r *stored) []byte {
	b = append(b, '[')
	b = appendString(b, r.row.Name)
	b = append(b, ',')
	b = appendString(b, r.row.Key)
	b = append(b, ',')
	b = strconv.AppendInt(b, int64(r.row.Shard), 10)
	return append(b, ']')
}

// appendString writes a text without control characters, as names and keys are, in JSON.
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

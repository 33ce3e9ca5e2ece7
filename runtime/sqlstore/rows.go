package sqlstore

import (
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
	if len(rows) > 0 {
		r, s := rows[0].row, rows[0].state
		v[paramName], v[paramKey], v[paramShard] = r.Name, r.Key, r.Shard
		v[paramValue], v[paramTS], v[paramPrev] = s.Value, s.TS, s.Prev
	}
	if len(rows) == 1 {
		return oneRow, v
	}
	// Only that is written which the statement has.
	v[paramRows] = func() string { return asJSON(rows) }
	bindLists(v, rows)
	return manyRows, v
}

// asJSON writes rows as a list of objects with the members n, k, s, v, t and p: the columns name, key, shard,
// value, ts and prev.
func asJSON(rows []stored) string {
	b := make([]byte, 0, 80*len(rows))
	b = append(b, '[')
	for i, r := range rows {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"n":`...)
		b = appendString(b, r.row.Name)
		b = append(b, `,"k":`...)
		b = appendString(b, r.row.Key)
		b = append(b, `,"s":`...)
		b = strconv.AppendInt(b, int64(r.row.Shard), 10)
		b = append(b, `,"v":`...)
		b = strconv.AppendFloat(b, r.state.Value, 'g', -1, 64)
		b = append(b, `,"t":`...)
		b = strconv.AppendInt(b, r.state.TS, 10)
		b = append(b, `,"p":`...)
		b = strconv.AppendFloat(b, r.state.Prev, 'g', -1, 64)
		b = append(b, '}')
	}
	return string(append(b, ']'))
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

package sqlstore

import (
	"math"
	"strconv"
)

// listOf returns a function that writes something of each row as a list of Postgres, which is empty if it is the same
// for all. In quotes, such a list escapes the same characters as JSON.
func listOf[T comparable](of func(*stored) T, appendTo func([]byte, T) []byte) func([]stored) string {
	return func(rows []stored) string {
		if alike(rows, of) {
			return "{}"
		}
		b := make([]byte, 0, 32*len(rows))
		for i := range rows {
			b = append(b, ',')
			b = appendTo(b, of(&rows[i]))
		}
		b[0] = '{'
		return string(append(b, '}'))
	}
}

// alike reports whether something is the same for all rows.
func alike[T comparable](rows []stored, of func(*stored) T) bool {
	for i := range rows {
		if of(&rows[i]) != of(&rows[0]) {
			return false
		}
	}
	return true
}

func appendInt(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) }

// appendFloat writes the number of these bits: two zeros can be equal, and differ in them.
func appendFloat(b []byte, bits uint64) []byte {
	return strconv.AppendFloat(b, math.Float64frombits(bits), 'g', -1, 64)
}

package views

import "strings"

// words are how a database writes what differs between databases. The texts of this package are written as for MariaDB.
type words struct {
	// now is the present in nanoseconds since 1970 UTC.
	now string
	// double, integer and text are types of a CAST.
	double, integer, text string
	// least and greatest are functions of two arguments, and div is the operator that divides integers.
	least, greatest, div string
	// ceil rounds the column {x} up, to a double, and time converts {x} from seconds since 1970 UTC.
	ceil, time string
	// row is what precedes a row of VALUES.
	row string
	// copies means that the expressions of a subquery are copied into the query around it.
	copies bool
	// drop means that a view cannot be replaced, but must be dropped first.
	drop bool
}

// dialects has the words of each dialect, by its name.
var dialects = map[string]words{
	"sqlite": {
		now:    `CAST(strftime('%s', 'now') AS INTEGER) * 1000000000 + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) * 1000000`,
		double: "REAL", integer: "INTEGER", text: "TEXT", least: "min(", greatest: "max(", div: "/",
		// The function ceil is not in every build of SQLite.
		ceil:   "CAST(CAST({x} AS INTEGER) + ({x} > CAST({x} AS INTEGER)) AS REAL)",
		time:   "strftime('%Y-%m-%d %H:%M:%f', {x}, 'unixepoch')",
		copies: true,
		drop:   true,
	},
	"postgres": {
		now:    `CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS BIGINT) * 1000`,
		double: "DOUBLE PRECISION", integer: "BIGINT", text: "TEXT", least: "LEAST(", greatest: "GREATEST(", div: "/",
		ceil: "ceil({x})",
		time: "to_timestamp({x})",
	},
	"mariadb": onMySQL,
	"mysql":   withRow(onMySQL),
}

var onMySQL = words{
	now:    `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) * 1000`,
	double: "DOUBLE", integer: "SIGNED", text: "CHAR", least: "LEAST(", greatest: "GREATEST(", div: "DIV",
	ceil: "CEILING({x})",
	// Not FROM_UNIXTIME, which uses the time zone of the session, and ends in 2038.
	time: "TIMESTAMPADD(MICROSECOND, CAST(ROUND({x} * 1000000) AS SIGNED), CAST('1970-01-01' AS DATETIME(6)))",
}

func withRow(w words) words {
	w.row = "ROW"
	return w
}

// fill replaces the words in a text.
func (w words) fill(text string) string {
	return strings.NewReplacer("LEAST(", w.least, "GREATEST(", w.greatest, " DIV ", " "+w.div+" ",
		"AS DOUBLE)", "AS "+w.double+")", "{text}", w.text, "{integer}", w.integer, "{now}", w.now).Replace(text)
}

// applied returns a function of the words, such as ceil, of an expression.
func applied(function, to string) string { return strings.ReplaceAll(function, "{x}", to) }

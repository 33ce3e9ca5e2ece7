// Package views writes the SQL of views that compute the present state of every key of the limits of a file.
//
// A row of the table holds the state as of the last write: the tokens that have accrued since are in no column. The view
// adds them, by the formulas of [runtime.Rule.Step], so that a dashboard or a person at a database prompt reads the
// present. It has a row for each key that has rows in the table; all other keys are full.
//
//	name         the limit
//	key          as it is stored, see [runtime.Key.String]
//	plan         the plan, or NULL if the limit does not depend on it
//	tokens_left  what a request could take now; negative while reserved tokens are outstanding
//	capacity     the tokens of a full key
//	full_at      when the key is full if nothing more is taken, in UTC; the present if it is full, and NULL if that is
//	             beyond the last window of a calendar or the year 9999
//	in_debt      whether tokens_left is below 0
//	in_force     what an operator has put in force for the key or the whole limit, as in the log of overrides: block, plan,
//	             numbers, unlimited, off or shadow; NULL if nothing is
//
// The numbers are those in force. A key for which an override lifts the limit has NULL for tokens_left, capacity and full_at,
// and one that is blocked has the tokens that it keeps. So the table of overrides must exist if a limit has overrides.
//
// The table does not contain the plan of a key, so that a limit that depends on the plan has a row for each plan that is
// limited: join it with the table that has the plans of your customers. A condition on name and key is applied to the
// primary key of the table.
//
// # Guarantees
//
// tokens_left differs from the Value of a Peek at the same instant by less than a millionth of a token, for rows that
// were written under the limit as it is in the file, or with other numbers. The windows of a limit whose start is derived
// from the key are read from its row: after an edit of the period or the kind, a key is exact again from its next write on.
//
// # Non-guarantees
//
// Limits of which the table does not contain enough are left out, and a comment in the SQL says why. A process decides by an
// entry of the log some seconds after the view shows it; see [runtime.OverrideView]. An entry that a later version has
// written is shown in in_force, with the numbers of the file.
package views

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

// Options say for which table the views are.
type Options struct {
	// Dialect is one of [sqlstore.Dialects].
	Dialect sqlstore.Dialect
	// Table is the table of the counts, [sqlstore.DefaultTable] if it is empty. The names of the views begin with it.
	Table string
	// Now is an SQL expression for the present, in nanoseconds since 1970 UTC; if it is empty, the database's clock.
	Now string
}

// SQL returns the statements that create the views of the limits of a file, or replace them. The error is about the
// dialect or the table's name.
func SQL(file *spec.File, o Options) (string, error) {
	w, ok := dialects[o.Dialect.Name]
	if !ok {
		return "", fmt.Errorf("there are no views for the dialect %q", o.Dialect.Name)
	}
	if o.Now != "" {
		w.now = o.Now
	}
	if o.Table == "" {
		o.Table = sqlstore.DefaultTable
	}
	v := views{words: w, example: "sendMessage"}
	if i := slices.IndexFunc(file.Limits, func(l *spec.Limit) bool { return len(l.Key) > 0 }); i >= 0 {
		v.example = file.Limits[i].Policy.Name
	}
	for _, l := range file.Limits {
		v.limit(l)
	}
	// Text replaces {table}, and only there the suffix of the views can be inside the quotes.
	for _, part := range []struct{ placeholder, table string }{
		{"{now_view}", o.Table + "_now"}, {"{windows_view}", o.Table + "_windows"}, {"{overrides}", sqlstore.OverridesTable(o.Table)},
	} {
		name, err := o.Dialect.Text("{table}", part.table)
		if err != nil {
			return "", err
		}
		v.names = append(v.names, part.placeholder, name)
	}
	return o.Dialect.Text(strings.NewReplacer(v.names...).Replace(v.statements()), o.Table)
}

// views are the parts of the statements while they are written.
type views struct {
	words words
	// selects are the SELECTs of the limits.
	selects []string
	// windows are those of the calendars.
	windows []run
	// example is the name of a limit with a key, for a query in a comment.
	example string
	// leftOut are comments about limits without a SELECT.
	leftOut []string
	// names are pairs of a placeholder and the quoted name of a view.
	names []string
}

// limit adds a limit, once for each of its plans.
func (v *views) limit(l *spec.Limit) {
	for _, of := range l.Each() {
		v.policy(of, l.Plans)
	}
}

// policy adds a limit as it is for one of some plans.
func (v *views) policy(l *spec.Limit, plans []*spec.Limit) {
	p := &l.Policy
	title := p.Name
	if l.Plan != "" {
		title += ", plan " + l.Plan
	}
	if reason := omission(p); reason != "" {
		v.leftOut = append(v.leftOut, fmt.Sprintf("-- %s is left out: %s.", title, reason))
		return
	}
	if p.Calendar.Unit != 0 && !slices.ContainsFunc(v.windows, func(r run) bool { return r.name == p.Name }) {
		v.windows = append(v.windows, runsOf(p)...)
	}
	about := fmt.Sprintf("-- %s: %s.\n", title, strings.TrimSuffix(strings.Join(strings.Fields(strings.Join(l.Words(), " ")), " "), "."))
	v.selects = append(v.selects, about+v.words.fill(v.words.keys(limit{p, plans}, l.Plan)))
}

// omission returns why the state of a policy cannot be computed from its rows, or "".
func omission(p *runtime.Policy) string {
	switch {
	case p.Mode == runtime.ModeUnlimited:
		return "it is unlimited"
	case p.Mode == runtime.ModeOff:
		return "its mode is off, so that its rows are not up to date"
	case p.Calendar.ZonePerKey && p.Calendar.Anniversary:
		return "each key has its own time zone and anniversary, which are not in the table"
	case p.Calendar.ZonePerKey:
		return "each key has its own time zone, which is not in the table"
	case p.Calendar.Anniversary:
		return "each key has its own anniversary, which is not in the table"
	}
	return ""
}

// statements returns all statements, with placeholders for the names.
func (v *views) statements() string {
	var b strings.Builder
	b.WriteString("-- The present state of every key that has rows in {table}. Keys without rows are full:\n")
	fmt.Fprintf(&b, "--   SELECT * FROM {now_view} WHERE name = '%s' AND {key} = '42'\n", v.example)
	b.WriteString("-- Execute these statements again after each edit of the file: they replace the views.\n")
	for _, comment := range v.leftOut {
		b.WriteString(comment + "\n")
	}
	if len(v.windows) > 0 {
		fmt.Fprintf(&b, "-- Windows of calendars are those of %d to %d: create the views again before the end.\n", firstYear, lastYear)
	}
	create := "CREATE OR REPLACE VIEW"
	if v.words.drop {
		// In a transaction, because otherwise a query between the statements finds no view.
		b.WriteString("BEGIN;\nDROP VIEW IF EXISTS {now_view};\nDROP VIEW IF EXISTS {windows_view};\n")
		create = "CREATE VIEW"
	}
	if len(v.windows) > 0 {
		fmt.Fprintf(&b, "\n-- From since to until, windows begin every length nanoseconds. Instants are in nanoseconds since 1970 UTC.\n"+
			"%s {windows_view} AS\n%s;\n", create, v.words.windowsView(v.windows))
	}
	selects := v.selects
	if len(selects) == 0 {
		selects = []string{v.words.fill(noKeys)}
	}
	fmt.Fprintf(&b, "\n%s {now_view} AS\n%s;\n", create, strings.Join(selects, "\nUNION ALL\n"))
	switch {
	case v.words.drop:
		b.WriteString("\nCOMMIT;\n")
	case len(v.windows) == 0:
		b.WriteString("\n-- An earlier file may have had calendars.\nDROP VIEW IF EXISTS {windows_view};\n")
	}
	return b.String()
}

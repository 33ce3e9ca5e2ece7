package conn

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
)

// Names in [Schemas] that are no tables: whether that of the counts is sharded, and the function that distributes its rows.
const (
	shardedSchema = "sharded:"
	vindex        = "vindex:"
)

// findKeyspaces finds the keyspaces of the tables if the table of the counts is sharded.
func (s *Server) findKeyspaces(ctx context.Context, db Querier, schemas map[string]string) error {
	if s.Dialect.Keyspaces == "" || schemas[s.Table] == "" {
		return nil
	}
	all, err := pairs(ctx, db, s.Dialect.Keyspaces)
	if err != nil {
		return s.ExplainServer(err)
	}
	if !slices.Contains(all, [2]string{schemas[s.Table], "true"}) {
		return nil
	}
	schemas[shardedSchema] = "true"
	beside, err := s.findBeside(ctx, db, slices.DeleteFunc(all, func(k [2]string) bool { return k[1] == "true" }))
	if err != nil {
		return err
	}
	schemas[dialect.OverridesTable(s.Table)], schemas[dialect.RegistryTable(s.Table)] = beside, beside
	text, err := s.Dialect.TextIn(schemas[s.Table], s.Dialect.Vindexes, s.Table)
	if err != nil {
		return err
	}
	found, err := pairs(ctx, db, text)
	if err != nil && !fault.NoTable(err) {
		return err
	}
	// The first one decides.
	if len(found) > 0 && found[0][0] == dialect.FirstPart {
		schemas[vindex] = found[0][1]
	}
	return nil
}

// findBeside returns the schema of the other tables.
func (s *Server) findBeside(ctx context.Context, db Querier, all [][2]string) (string, error) {
	if len(all) == 1 {
		return all[0][0], nil
	}
	var names, having []string
	for _, k := range all {
		describe, err := s.Dialect.TextIn(k[0], s.Dialect.Describe, dialect.RegistryTable(s.Table))
		if err != nil {
			return "", err
		}
		found, err := pairs(ctx, db, describe)
		if err != nil {
			return "", err
		}
		if names = append(names, k[0]); len(found) > 0 {
			having = append(having, k[0])
		}
	}
	if len(having) == 1 {
		return having[0], nil
	}
	hint := "no keyspace is unsharded: create one"
	if len(names) > 0 {
		hint = "create them in one of the keyspaces " + strings.Join(names, ", ")
	}
	return "", &fault.Hinted{Text: s.FillIn(fmt.Sprintf(unknownBeside, dialect.OverridesTable(s.Table), dialect.RegistryTable(s.Table), hint)), Err: nil}
}

const unknownBeside = `the keyspace of table {table} is sharded, and the tables %q and %q belong to one that is not: %s, with what ` +
	`"ratelimitgen sql {flags}" prints`

// missingVindex is the hint if the rows of the table are not distributed by the first parts of their keys.
const missingVindex = "the vschema does not distribute table {table} by its column first_part: call Migrate, or apply the vschema that " +
	`"ratelimitgen sql {flags}" prints`

// pairs returns the first two columns of the rows that a query selects.
func pairs(ctx context.Context, db Querier, query string) (all [][2]string, err error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	if len(names) < 2 {
		return nil, fmt.Errorf("%q selects %d columns", query, len(names))
	}
	values := make([]sql.NullString, len(names))
	columns := make([]any, len(names))
	for i := range values {
		columns[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(columns...); err != nil {
			return nil, err
		}
		all = append(all, [2]string{values[0].String, values[1].String})
	}
	return all, rows.Err()
}

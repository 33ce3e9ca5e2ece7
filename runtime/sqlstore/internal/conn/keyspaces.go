package conn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
)

// Names in [Schemas] that are no tables: whether that of the counts is sharded, and the function that distributes its rows.
const (
	shardedSchema = "sharded:"
	vindex        = "vindex:"
)

// Sharded reports whether the rows of the table are known to be on several shards.
func (s *Server) Sharded() bool { return s.Place().placesOf != "" }

// mostPlaces is how many keys a statement has that finds their places.
const mostPlaces = 1000

// PlacesIn returns the names of the shards on which keys lie, or nothing if the table is on one server. No shard is asked.
func (s *Server) PlacesIn(ctx context.Context, in Querier, keys []string) (map[string]string, error) {
	places := map[string]string{}
	if !s.Sharded() {
		return places, nil
	}
	slices.Sort(keys)
	for some := range slices.Chunk(slices.Compact(keys), mostPlaces) {
		text := []byte(s.Place().placesOf)
		for i, key := range some {
			text = appendHex(append(text, "(,"[min(i, 1)]), key)
		}
		found, err := pairs(ctx, in, string(append(text, ')')))
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			places[f[0]] = f[1]
		}
	}
	return places, nil
}

// manyKeys are so many that each shard has some, unless there are hundreds.
const manyKeys = 2000

// KeyOfEach returns a key of each shard on which the table is, or nothing if it is on one server.
func (s *Server) KeyOfEach(ctx context.Context) (keys map[string]string, err error) {
	all := make([]string, manyKeys)
	for i := range all {
		all[i] = strconv.Itoa(i)
	}
	places, err := s.PlacesIn(ctx, s.DB, all)
	if err != nil {
		return nil, err
	}
	keys = map[string]string{}
	for key, place := range places {
		keys[place] = key
	}
	return keys, nil
}

// CheckOn compares the table on a shard with the dialect's requirements.
func (s *Server) CheckOn(ctx context.Context, place string) error {
	conn, err := s.DB.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	// The next statements of the connection would go to this shard too, whatever their keys.
	defer conn.Raw(func(any) error { return driver.ErrBadConn })
	use := strings.NewReplacer("{schema}", s.Place().schemas[s.Table], "{place}", place).Replace(s.Dialect.UsePlace)
	if _, err := conn.ExecContext(ctx, use); err != nil {
		return err
	}
	describe, err := s.Dialect.TextIn("", s.Dialect.Describe, s.Table)
	if err != nil {
		return err
	}
	found, err := Describe(ctx, conn, describe)
	if err != nil {
		return err
	}
	if all := Differences(s.Dialect.Parts, found); len(all) > 0 {
		return &fault.Hinted{Text: s.FillIn(fault.WrongTable) + ": on shard " + place + ": " + strings.Join(all, "; "), Err: nil}
	}
	return nil
}

// findKeyspaces finds where the tables are if that of the counts is sharded.
func (s *Server) findKeyspaces(ctx context.Context, db Querier, schemas Schemas) error {
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
	if len(found) > 0 && found[0][0] == "key" {
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
		found, err := Describe(ctx, db, describe)
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

// missingVindex is the hint if the rows of the table are not distributed by their keys.
const missingVindex = "the vschema does not distribute table {table} by its column key: call Migrate, or apply the vschema that " +
	`"ratelimitgen sql {flags}" prints`

// addVindex has the key distribute the rows of the table, if that is sharded, and waits until the server does so.
func (s *Server) addVindex(ctx context.Context) error {
	var tried error
	for added := false; ; {
		found, err := s.Find(ctx, s.DB)
		if err != nil || found[shardedSchema] == "" || found[vindex] != "" {
			return err
		}
		if tried != nil {
			return tried
		}
		if !added {
			add, err := s.Dialect.TextIn(found[s.Table], s.Dialect.AddVindex, s.Table)
			if err != nil {
				return err
			}
			// Another process may have added it.
			_, tried = s.DB.ExecContext(ctx, add)
			added = true
		}
		if err := Sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

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

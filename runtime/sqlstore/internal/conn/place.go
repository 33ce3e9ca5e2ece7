package conn

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
)

// Place is where the tables of a store are, and the statements that name them.
type Place struct {
	// schemas is nil until they are known: until then, a session finds the tables by its own settings.
	schemas Schemas
	Queries Queries
	// Together is nil if the dialect has no such statements, and so is Bounds.
	Together *Together
	Bounds   *Bounds
	// placesOf begins the statement that finds the shards of keys. It is empty if the table is on one server.
	placesOf string
	// The statements of the dialect with these names.
	Describe, Sync, Reclaim, Latest, Now string
}

// Schemas are the schemas of the tables by their names, and of a table that is created by ".".
type Schemas map[string]string

// created is the name under which [dialect.Dialect.Locate] selects the schema in which a table is created.
const created = "."

// anyTable is the name under which it selects the schema of all tables.
const anyTable = "*"

func newPlace(db *sql.DB, d dialect.Dialect, table string, schemas Schemas) (p *Place, err error) {
	p = &Place{schemas: schemas}
	schema := schemas[table]
	for _, text := range []struct {
		into *string
		text string
	}{{&p.Describe, d.Describe}, {&p.Sync, d.Sync}, {&p.Reclaim, d.Reclaim}, {&p.Latest, d.Latest}} {
		if *text.into, err = d.TextIn(schema, text.text, table); err != nil {
			return nil, err
		}
	}
	// Where the table of registrations is, there is one clock.
	if p.Now, err = d.TextIn(schemas[dialect.RegistryTable(table)], d.Now, table); err != nil {
		return nil, err
	}
	if name := schemas[vindex]; name != "" {
		if p.placesOf, err = d.TextIn(schema, d.PlacesOf, name); err != nil {
			return nil, err
		}
	}
	if p.Queries, err = newQueries(d, schema, table); err != nil {
		return nil, err
	}
	if p.Together, err = newTogether(d, schema, table, rowSources(d)); err != nil {
		return nil, err
	}
	p.Bounds, err = newBounds(db, d, schema, table, p.Queries)
	return p, err
}

// Place returns the place of the tables, as far as it is known.
func (s *Server) Place() *Place { return s.place.Load() }

// Naming returns a statement with the name of one of the store's tables, with its schema if that is known.
func (s *Server) Naming(table, statement string) (string, error) {
	return s.Dialect.TextIn(s.Place().schemas[table], statement, table)
}

// Located reports whether the schemas of the tables are known, or can be known from their names only.
func (s *Server) Located() bool {
	return s.Dialect.Locate == "" || s.Place().schemas != nil || strings.Contains(s.Table, ".")
}

// Locate finds the schemas of the tables by a session, and settles on them.
func (s *Server) Locate(ctx context.Context, db Querier) error {
	if s.Located() {
		return nil
	}
	found, err := s.Find(ctx, db)
	if err != nil {
		return err
	}
	return s.Settle(found)
}

// Settle has all statements name the schemas of the tables from then on. It does so once in the life of the store, when the
// session has found the table of the counts.
func (s *Server) Settle(found Schemas) error {
	before := s.Place()
	if before.schemas != nil || found[s.Table] == "" {
		return nil
	}
	if found[shardedSchema] != "" && found[vindex] == "" {
		return &fault.Hinted{Text: s.FillIn(missingVindex), Err: nil}
	}
	place, err := newPlace(s.DB, s.Dialect, s.Table, found)
	if err == nil {
		// Another call may have found them first.
		s.place.CompareAndSwap(before, place)
	}
	return err
}

// Find returns the schemas of the tables that exist. The others would be created beside that of the counts, or where the
// session creates tables if that is missing too.
func (s *Server) Find(ctx context.Context, db Querier) (Schemas, error) {
	tables := []string{s.Table, dialect.OverridesTable(s.Table), dialect.RegistryTable(s.Table)}
	rows, err := db.QueryContext(ctx, s.Dialect.LocateText(tables...))
	if err != nil {
		return nil, s.ExplainServer(err)
	}
	defer rows.Close()
	schemas := Schemas{}
	for rows.Next() {
		var name, schema sql.NullString
		if err := rows.Scan(&name, &schema); err != nil {
			return nil, err
		}
		// A database may ignore the case of names.
		if i := slices.IndexFunc(tables, func(table string) bool { return strings.EqualFold(table, name.String) }); i >= 0 {
			name.String = tables[i]
		}
		if other := schemas[name.String]; other != "" && other != schema.String {
			return nil, &fault.Hinted{Text: fmt.Sprintf(s.FillIn(ambiguousSchema), name.String, other, schema.String), Err: nil}
		}
		if name.String == anyTable && dialect.Spellable(schema.String) {
			for _, table := range tables {
				schemas[table] = schema.String
			}
			continue
		}
		if dialect.Spellable(schema.String) {
			schemas[name.String] = schema.String
		}
	}
	for _, table := range tables[1:] {
		if beside := schemas[s.Table]; beside != "" && schemas[table] == "" {
			schemas[table] = beside
		}
	}
	if err := cmp.Or(rows.Err(), rows.Close()); err != nil {
		return nil, err
	}
	return schemas, s.findKeyspaces(ctx, db, schemas)
}

// ambiguousSchema is the hint if a session finds another table than it found when it began.
const ambiguousSchema = "there is a table %q in the schemas %q and %q, and the search_path of this session finds the one, while the " +
	"search_path with which the session began finds the other: set Options.Table to schema.table"

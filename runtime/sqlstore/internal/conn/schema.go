package conn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
)

// CreateTable runs a CREATE TABLE IF NOT EXISTS, unless the table exists: the app's user may not have the right to create
// one.
func (s *Server) CreateTable(ctx context.Context, table, create string) error {
	return Retry(ctx, func(ctx context.Context) error {
		// First, because an unsuitable database is easier to replace before it has the table.
		if err := s.checkSession(ctx, s.DB); err != nil {
			return err
		}
		schema, found, err := s.describeTable(ctx, table)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			create, err := s.Dialect.TextIn(schema, create, table)
			if err != nil {
				return err
			}
			_, err = s.DB.ExecContext(ctx, create)
			if fault.CreatedMeanwhile(err) {
				// The next attempt finds the table of the other process.
				return &fault.Again{Err: err}
			}
			if err != nil {
				return err
			}
		} else if table == s.Table && s.Dialect.AddColumn != "" && found[dialect.FirstPart] == "" {
			add, err := s.Dialect.TextIn(schema, s.Dialect.AddColumn, table)
			if err != nil {
				return err
			}
			if _, err := s.DB.ExecContext(ctx, add); err != nil {
				return err
			}
		}
		if s.Dialect.AddVindex == "" || table != s.Table || s.Located() {
			return nil
		}
		return s.addVindex(ctx)
	})
}

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

// describeTable returns the parts of a table, none if it does not exist, and the schema in which it is, or is to be created.
func (s *Server) describeTable(ctx context.Context, table string) (schema string, found map[string]string, err error) {
	if s.Dialect.Locate != "" && !strings.Contains(table, ".") {
		schemas := s.Place().schemas
		if schemas == nil {
			if schemas, err = s.Find(ctx, s.DB); err != nil {
				return "", nil, err
			}
		}
		schema = cmp.Or(schemas[table], schemas[created])
	}
	if s.Dialect.Describe == "" {
		return schema, nil, nil
	}
	describe, err := s.Dialect.TextIn(schema, s.Dialect.Describe, table)
	if err != nil {
		return "", nil, err
	}
	found, err = Describe(ctx, s.DB, describe)
	return schema, found, err
}

// Check compares the session and the table with the dialect's requirements. Some differences would corrupt counts
// without an error: without a primary key, a database may keep two rows for one key.
func (s *Server) Check(ctx context.Context, db Querier) error {
	// First, because in some sessions the table cannot be described.
	if err := s.checkSession(ctx, db); err != nil {
		return err
	}
	if err := s.Locate(ctx, db); err != nil {
		return err
	}
	if s.Dialect.Describe == "" {
		return nil
	}
	found, err := Describe(ctx, db, s.Place().Describe)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return &fault.Hinted{Text: s.FillIn(fault.InvisibleTable), Err: ErrInvisibleTable}
	}
	if found["ts"] != "" && found["at_ns"] == "" {
		return &fault.Hinted{Text: s.FillIn(fault.FirstTable), Err: nil}
	}
	if all := Differences(s.Dialect.Parts, found); len(all) > 0 {
		return &fault.Hinted{Text: s.FillIn(fault.WrongTable) + ": " + strings.Join(all, "; "), Err: nil}
	}
	s.Checked.Store(true)
	return nil
}

// checkSession compares the settings of the session with the dialect's requirements. A session without autocommit, for
// example, would lose every statement outside of a transaction.
func (s *Server) checkSession(ctx context.Context, db Querier) error {
	if s.Dialect.Session == "" {
		return nil
	}
	all, err := s.differ(ctx, db, s.Dialect.Session, s.Dialect.SessionNeeds)
	if len(all) == 0 || err != nil {
		return err
	}
	hint := fault.WrongSession
	// SessionNeeds has first what cannot be changed by the settings of a connection.
	switch {
	case strings.HasPrefix(all[0], "server_encoding "):
		hint = fault.WrongEncoding
	case strings.HasPrefix(all[0], "server "):
		hint = fault.OtherServer
	case s.Checked.Load():
		hint = fault.ChangedSession
	}
	return &fault.Hinted{Text: s.FillIn(hint) + ": " + strings.Join(all, "; "), Err: nil}
}

// CheckReady compares the settings of a session with those without which calls may wait for long.
func (s *Server) CheckReady(ctx context.Context) error {
	if s.Dialect.Ready == "" {
		return nil
	}
	all, err := s.differ(ctx, s.DB, s.Dialect.Ready, s.Dialect.ReadyNeeds)
	if len(all) == 0 || err != nil {
		return err
	}
	return &fault.Hinted{Text: s.FillIn(fault.WrongSession) + ": " + strings.Join(all, "; "), Err: nil}
}

// differ returns how the settings of a session differ from the required ones.
func (s *Server) differ(ctx context.Context, db Querier, settings, needs string) ([]string, error) {
	found, err := Describe(ctx, db, settings)
	if err != nil {
		return nil, s.ExplainServer(err)
	}
	return Differences(needs, found), nil
}

// ExplainSession names the settings of a session that are wrong by now, if a statement has failed for a reason that has no
// hint. Without a transaction, the session is any of the pool, which most likely returns the connection of that statement.
func (s *Server) ExplainSession(ctx context.Context, db Querier, err error) error {
	if s.Dialect.Session == "" || !fault.OfServer(err) || errors.As(err, new(*fault.Hinted)) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bounds.ExplainTimeout)
	defer cancel()
	if hinted := new(fault.Hinted); errors.As(s.checkSession(ctx, db), &hinted) {
		hinted.Err = err
		return hinted
	}
	return err
}

// ErrInvisibleTable is wrapped by the error of [Server.Check] if the database does not list the table.
var ErrInvisibleTable = errors.New("the table is not visible")

// Describe returns the names and descriptions that a query selects.
func Describe(ctx context.Context, db Querier, query string) (map[string]string, error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := map[string]string{}
	for rows.Next() {
		var name, description string
		if err := rows.Scan(&name, &description); err != nil {
			return nil, err
		}
		found[name] = description
	}
	return found, rows.Err()
}

// Differences compares found with the required parts, in the form of [dialect.Dialect.Parts].
func Differences(required string, found map[string]string) (all []string) {
	for line := range strings.Lines(strings.TrimSpace(required)) {
		name, kinds, _ := strings.Cut(strings.TrimSpace(line), ": ")
		allowed := strings.Split(kinds, " | ")
		switch kind, ok := found[name]; {
		case !ok:
			all = append(all, fmt.Sprintf("%s is missing", name))
		case !slices.Contains(allowed, kind):
			all = append(all, fmt.Sprintf("%s is %q instead of %q", name, kind, allowed[0]))
		}
	}
	return all
}

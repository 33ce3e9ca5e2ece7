package conn

import (
	"context"
	"database/sql/driver"
	"slices"
	"strconv"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
)

// Sharded reports whether the rows of the table are known to be on several shards.
func (s *Server) Sharded() bool { return s.Place().placesOf != "" }

// mostPlaces is how many first parts of keys a statement has that finds their places.
const mostPlaces = 1000

// PlacesIn returns the names of the shards for first parts of keys, or nothing if the table is on one server. No shard is
// asked.
func (s *Server) PlacesIn(ctx context.Context, in Querier, parts []string) (map[string]string, error) {
	places := map[string]string{}
	if !s.Sharded() {
		return places, nil
	}
	slices.Sort(parts)
	for some := range slices.Chunk(slices.Compact(parts), mostPlaces) {
		text := []byte(s.Place().placesOf)
		for i, part := range some {
			text = appendHex(append(text, "(,"[min(i, 1)]), part)
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

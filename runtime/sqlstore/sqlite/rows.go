package sqlite

import (
	"database/sql/driver"
	"fmt"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/recent"
)

// storedRow is a row as it is stored.
type storedRow struct {
	// id is the number of the row in SQLite, its _rowid_, by which statements find it sooner than by name, key and shard.
	// SQLite may give the number of a deleted row to another one, and VACUUM gives all rows other numbers.
	id    int64
	state runtime.State
}

// storedRowOf returns the row with the columns id, value, at_ns, prev and log.
func storedRowOf(columns []driver.Value) (storedRow, error) {
	id, okID := columns[0].(int64)
	value, okValue := columns[1].(float64)
	at, okAt := columns[2].(int64)
	prev, okPrev := columns[3].(float64)
	log, okLog := columns[4].([]byte)
	if !okID || !okValue || !okAt || !okPrev || !okLog && columns[4] != nil {
		return storedRow{}, fmt.Errorf("the row of a rate limit has a value of %T, an at_ns of %T, a prev of %T and a log of %T",
			columns[1], columns[2], columns[3], columns[4])
	}
	return storedRow{id, runtime.State{Value: value, TS: at, Prev: prev, Log: string(log), Exists: true}}, nil
}

// rowCache has the rows that a connection has read or written last, so that most batches read none. They are those of the
// database while it has the version of the cache, which each commit replaces: of this connection, of another one and of
// another process. The zero rowCache is empty.
type rowCache struct {
	rows recent.Map[runtime.Row, cachedRow]
	// version is that of the database, if it is known.
	version uint32
	known   bool
	// epoch counts the versions that others have made.
	epoch int64
}

// cachedRow is a row as it was in an epoch. In a later one, its number is where to look first.
type cachedRow struct {
	storedRow
	epoch int64
}

const (
	// youngRows is the most rows of each of the two generations: together some 15 MB.
	youngRows = 32_768
	// longestLog is the longest log that is kept, so that slots and precise windows do not take much more. Of rows with longer
	// ones, the number is kept, which is the one of no epoch.
	longestLog = 256
	noEpoch    = -1
)

// use ends the epoch unless the database still has the version of the cache. That is read in a transaction, in which it does
// not change.
func (c *rowCache) use(version uint32, err error) {
	if err != nil || !c.known || version != c.version {
		c.epoch++
	}
	c.version, c.known = version, err == nil
}

// committed makes the rows those of the version after a commit of this connection.
func (c *rowCache) committed(version uint32, err error) { c.version, c.known = version, err == nil }

// committedAlone is committed for a statement without a transaction, before which others may have written: each commit adds
// one to the version, and so does it when a connection finds that others have written.
func (c *rowCache) committedAlone(version uint32, err error) {
	if err != nil || !c.known || version != c.version+1 {
		c.epoch++
	}
	c.committed(version, err)
}

// doubt has the next use end the epoch, because it is not known what was written.
func (c *rowCache) doubt() { c.known = false }

// find returns a row as the database has it, or nil.
func (c *rowCache) find(row runtime.Row) *storedRow {
	if r := c.rows.Find(row); r != nil && r.epoch == c.epoch {
		return &r.storedRow
	}
	return nil
}

// number returns the number that a row had last, or false.
func (c *rowCache) number(row runtime.Row) (int64, bool) {
	if r := c.rows.Find(row); r != nil {
		return r.id, true
	}
	return 0, false
}

// set sets a row to what the database has, or will have with the commit of the transaction.
func (c *rowCache) set(row runtime.Row, r storedRow) {
	if !r.state.Exists {
		c.rows.Delete(row)
		return
	}
	if len(r.state.Log) > longestLog {
		c.rows.Set(row, cachedRow{storedRow{id: r.id}, noEpoch}, youngRows)
		return
	}
	// SQLite stores no negative zero.
	r.state.Value, r.state.Prev = r.state.Value+0, r.state.Prev+0
	c.rows.Set(row, cachedRow{r, c.epoch}, youngRows)
}

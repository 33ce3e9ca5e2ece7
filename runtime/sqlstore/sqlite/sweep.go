package sqlite

import (
	"context"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/table"
)

// DeletePage implements table.PageDeleter, by one statement.
func (d decider) DeletePage(after runtime.Row, most int, mayGo func(runtime.StoredRow) bool) (deleted table.DeletedPage, err error) {
	conn, err := d.db.Conn(context.Background())
	if err != nil {
		return deleted, err
	}
	defer conn.Close()
	began := time.Now()
	err = conn.Raw(func(on any) (err error) {
		deleted, err = on.(*connection).deletePage(after, most, mayGo)
		return err
	})
	deleted.Took = time.Since(began)
	return deleted, err
}

func (c *connection) deletePage(after runtime.Row, most int, mayGo func(runtime.StoredRow) bool) (deleted table.DeletedPage, err error) {
	p := &page{name: after.Name, mayGo: mayGo}
	c.record.page = p
	known := false
	defer func() {
		c.record = callRecord{}
		if !known {
			c.cache.doubt()
		}
	}()
	err = c.tx(begin, func() (bool, error) {
		c.cache.use(c.version())
		result, err := c.exec(deletePage, after.Name, after.Key, after.Key, int64(after.Shard), int64(most))
		if err != nil || len(p.gone) == 0 {
			return false, err
		}
		n, err := result.RowsAffected()
		deleted.Deleted = int(n)
		return true, err
	})
	if err != nil {
		return deleted, err
	}
	if len(p.gone) > 0 {
		c.cache.committed(c.version())
		for _, row := range p.gone {
			c.cache.rows.Delete(row)
		}
	}
	known = true
	deleted.Last, deleted.Empty = p.last, !p.some
	return deleted, nil
}

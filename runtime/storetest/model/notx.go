package model

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// noTx returns what callers pass in place of a transaction, and the error that it gets: a transaction that has ended or, if the
// store has a pool, that or a connection without a transaction.
func (e Env) noTx(r *rand.Rand) (tx runtime.Tx, done func(), want error) {
	done = func() {}
	if e.DB != nil {
		switch r.IntN(3) {
		case 0:
			return e.DB, done, runtime.ErrNoTx
		case 1:
			if c, err := e.DB.Conn(context.Background()); err == nil {
				return c, func() { c.Close() }, runtime.ErrNoTx
			}
		}
	}
	ended, err := e.Begin()
	if err == nil {
		err = ended.Rollback()
	}
	if err != nil {
		panic(err)
	}
	return ended, done, sql.ErrTxDone
}

// outOfTx makes a request in what is no transaction: it must fail, and take nothing, whatever the limit does if its store fails.
func (w *world) outOfTx(q request, at turn) bool {
	t := q.at(at.now)
	if q.n = max(1, q.n); !t.counts() || t.unlimited || q.n > q.most(t) || q.l.traits["reserve"] == "only" {
		return false
	}
	tx, done, want := w.env.noTx(w.r)
	defer done()
	w.ask(at.limits, q)
	limits := at.limits.WithTx(tx)
	verb, do := "allow", func() (bool, error) {
		d, err := limits.Limit(q.policy(), q.k.of).AllowN(at.ctx, q.n)
		return d.Allowed, err
	}
	if w.r.IntN(3) == 0 {
		verb, do = "all", func() (bool, error) {
			ds, err := limits.All(at.ctx, limits.Limit(q.policy(), q.k.of).N(q.n))
			return ds.Allowed, err
		}
	}
	allowed, err := do()
	w.logf("%s of %s %s n %d in %T, which is no transaction: %v, %v", verb, q.policy().Name, q.k.of, q.n, tx, allowed, err)
	if allowed || !errors.Is(err, want) {
		w.failf("%s in %T, which is no transaction: allowed %v, the error is %v, want %v", verb, tx, allowed, err, want)
	}
	return true
}

package model

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// noTx returns limits in what is no transaction, and the error of their requests: in a transaction that has ended or, if the
// store has a pool, on a connection without one.
func (e Env) noTx(r *rand.Rand, limits *limiter.Limiter) (in *limiter.Limiter, done func(), want error) {
	if e.DB != nil && r.IntN(2) == 0 {
		if c, err := e.DB.Conn(context.Background()); err == nil {
			return limits.WithConn(c), func() { c.Close() }, runtime.ErrNoTx
		}
	}
	ended, err := e.Begin()
	if err == nil {
		err = ended.Rollback()
	}
	if err != nil {
		panic(err)
	}
	return limits.WithTx(ended), func() {}, sql.ErrTxDone
}

// outOfTx makes a request in what is no transaction: it must fail, and take nothing, whatever the limit does if its store
// fails.
func (w *world) outOfTx(q request, at turn) bool {
	t := q.at(at.now)
	if q.n = max(1, q.n); !t.counts() || t.unlimited || q.n > q.most(t) || q.l.traits["reserve"] == "only" {
		return false
	}
	limits, done, want := w.env.noTx(w.r, at.limits)
	defer done()
	w.ask(at.limits, q)
	verb, do := "allow", func() (bool, error) {
		d, err := q.handle(limits).AllowN(at.ctx, q.n)
		return d.Allowed, err
	}
	if w.r.IntN(3) == 0 {
		verb, do = "all", func() (bool, error) {
			ds, err := limits.All(at.ctx, q.handle(limits).N(q.n))
			return ds.Allowed, err
		}
	}
	allowed, err := do()
	w.logf("%s of %s %s n %d in no transaction: %v, %v", verb, q.policy().Name, q.k.of, q.n, allowed, err)
	if allowed || !errors.Is(err, want) {
		w.failf("%s in no transaction: allowed %v, the error is %v, want %v", verb, allowed, err, want)
	}
	return true
}

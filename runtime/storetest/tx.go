package storetest

import (
	"database/sql"
	"errors"

	"github.com/ratelimitgen/ratelimitgen/internal/ability"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// transactions returns the clauses about what a caller passes as its transaction.
func transactions() []clause {
	return []clause{
		{name: "NoTransaction", rule: "nil is no transaction: the error is ErrNilTx, or ErrNoTx of a store without transactions, and nothing is taken", policies: one(bucket()), check: func(s *subject, p *runtime.Policy) {
			want := runtime.ErrNilTx
			if _, ok := ability.Of[runtime.TxStore](s.store); !ok {
				want = runtime.ErrNoTx
			}
			refused := func(name string, in runtime.Store) {
				if answers, err := in.Do(s.ctx, []runtime.Call{call(request(p, runtime.Request{Count: 1}))}); !errors.Is(err, want) || answers != nil {
					s.broken("in %s, the answers are %v and the error is %v, want %v", name, answers, err, want)
				}
			}
			refused("nil", runtime.InTx(s.store, nil))
			refused("a nil *sql.Tx", runtime.InTx(s.store, (*sql.Tx)(nil)))
			refused("a nil *sql.Conn", runtime.InConn(s.store, nil))
			s.wantValue(p, 10)
		}},
	}
}

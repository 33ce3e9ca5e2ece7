package storetest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/ability"
)

// transactions returns the clauses about what a caller passes as its transaction.
func transactions() []clause {
	return []clause{
		{name: "NoTransaction", rule: "a pool and nil are no transaction: the errors are ErrNoTx and ErrNilTx, and nothing is taken", policies: one(bucket()), check: func(s *subject, p *runtime.Policy) {
			pool := sql.OpenDB(noDatabase{})
			defer pool.Close()
			for _, tx := range []runtime.Tx{pool, nil, (*sql.Tx)(nil), (*sql.Conn)(nil)} {
				want := runtime.ErrNilTx
				if _, ok := ability.Of[runtime.TxStore](s.store); !ok || tx == pool {
					want = runtime.ErrNoTx
				}
				if answers, err := runtime.InTx(s.store, tx).Do(s.ctx, []runtime.Call{call(request(p, runtime.Request{Count: 1}))}); !errors.Is(err, want) || answers != nil {
					s.broken("in a %T, the answers are %v and the error is %v, want %v", tx, answers, err, want)
				}
			}
			s.wantValue(p, 10)
		}},
	}
}

// noDatabase is a database that cannot be reached.
type noDatabase struct{}

var errNoDatabase = errors.New("there is no database")

func (noDatabase) Connect(context.Context) (driver.Conn, error) { return nil, errNoDatabase }
func (noDatabase) Driver() driver.Driver                        { return nil }

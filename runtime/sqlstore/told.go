package sqlstore

import (
	"context"
	"math"
	"math/bits"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// ToldInserted and ToldRefused are ids by which TakeTold in [Dialect] tells what it has done. They are no bits of a
// finite value, and no column that numbers its rows comes to them.
const (
	ToldInserted int64 = 0x7261746c67690000
	ToldRefused  int64 = 0x7261746c67690100
)

// untold is what to do if neither is told, nor a value.
const untold = "the server does not tell what a statement has taken, as if the table had a trigger or an AUTO_INCREMENT " +
	"column: remove it, or what stands between program and server and changes the id of the last insert"

// tell runs the statement that takes from one row and tells by numbers what it has done: see TakeTold in [Dialect].
func (t takes) tell(ctx context.Context, in session) error {
	form, v := t.bind()
	result, err := in.exec(ctx, tellRow, form, v)
	if err != nil {
		return err
	}
	affected, err := result.RowsAffected()
	if err != nil {
		return err
	}
	id, err := result.LastInsertId()
	if err != nil {
		return err
	}
	t[0].After, err = told(&t[0].Upsert, affected, id)
	return err
}

// told returns the state in which the statement has left the row, if it has taken. How many rows a driver says are
// affected if nothing is written is 0 or 1, as it is set up. What is left is at most what is left of a full row, and at
// least the debt that may be made, to within less than a token.
func told(u *runtime.Upsert, affected, id int64) (runtime.State, error) {
	value := math.Float64frombits(bits.ReverseBytes64(^uint64(id)))
	switch {
	case id == ToldRefused && affected <= 1:
		return runtime.State{}, nil
	case id == ToldInserted && affected == 1:
		return runtime.State{Value: u.Fresh, TS: u.T, Exists: true}, nil
	case affected == 2 && value <= u.Fresh && value > -u.Debt-1:
		return runtime.State{Value: value, TS: u.T, Exists: true}, nil
	}
	return runtime.State{}, &advised{untold, nil}
}

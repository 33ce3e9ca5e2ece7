package sqlstore

import (
	"context"
	"math"
	"math/bits"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// tell runs the statement that takes from one row and tells by numbers what it has done: see TakeTold in [Dialect].
// How many rows a driver says are affected if nothing is written is 0 or 1, as it is set up; the id is then 1.
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
	t[0].After = told(&t[0].Upsert, affected, id)
	return nil
}

// told returns the state in which the statement has left the row, if it has taken.
func told(u *runtime.Upsert, affected, id int64) runtime.State {
	switch {
	case affected == 2:
		value := math.Float64frombits(bits.ReverseBytes64(uint64(id)))
		return runtime.State{Value: value, TS: u.T, Seen: true}
	case affected == 1 && id == 0:
		return runtime.State{Value: u.Fresh, TS: u.T, Seen: true}
	}
	return runtime.State{}
}

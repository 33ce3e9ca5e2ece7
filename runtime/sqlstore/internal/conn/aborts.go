package conn

import (
	"context"
	"database/sql"
	"errors"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
)

// Admit reports whether the store must check that tx is open. It returns an error for a driver that prepares statements by
// itself: the caller's statements after an abort would be committed alone, without the tokens.
func (s *Server) Admit(ctx context.Context, tx Runner) (guarded bool, err error) {
	if s.Dialect.TxOpen == "" {
		return false, nil
	}
	if s.aborts.Load() == abortsUnknown {
		aborts, err := s.detectAborts(ctx, tx)
		if err != nil {
			return false, err
		}
		s.aborts.Store(aborts)
	}
	if s.aborts.Load() == abortsReported {
		return false, nil
	}
	if open, ok := inRunInTx(tx); ok {
		open.Store(&s.Dialect.TxOpen)
	}
	return true, nil
}

// detectAborts returns how aborts are reported, or an error for a driver that may hide them.
func (s *Server) detectAborts(ctx context.Context, tx Runner) (txAborts, error) {
	err := tx.QueryRowContext(ctx, s.Dialect.RepeatsStatements).Scan(new(string))
	if errors.Is(err, sql.ErrNoRows) {
		// The server is not a node of a cluster.
		return abortsReported, nil
	}
	if err != nil {
		return abortsUnknown, s.ExplainServer(err)
	}
	prepares, err := s.prepares(ctx, tx)
	if err == nil && prepares {
		err = &fault.Hinted{Text: preparesOnGalera, Err: nil}
	}
	return abortsDiscarded, err
}

// prepares reports whether the driver prepares statements with arguments.
func (s *Server) prepares(ctx context.Context, tx Runner) (bool, error) {
	count, err := Compile(s.Dialect, s.Dialect.CountPrepared, RowSource{}, "", s.Table)
	if err != nil {
		return false, err
	}
	// If the driver prepares the statement that counts, the second count includes the first statement.
	var counts [2]int64
	for i := range counts {
		if err := tx.QueryRowContext(ctx, count.Text, s.Dialect.Name).Scan(&counts[i]); err != nil {
			return false, err
		}
	}
	return counts[1] > counts[0], nil
}

// txAborts is how the server reports that it has aborted a transaction between two statements.
type txAborts = int32

const (
	abortsUnknown txAborts = iota
	// abortsReported: the next statement fails.
	abortsReported
	// abortsDiscarded: a command that prepares or closes a statement discards the error, but the driver sends such
	// commands only if the caller prepares a statement.
	abortsDiscarded
)

// preparesOnGalera is the hint for a driver that prepares statements in transactions.
const preparesOnGalera = "a Galera node may abort a transaction without an error if statements are prepared in it, as this driver " +
	"does: set interpolateParams=true in the data source name, and prepare no statements in the transaction"

package runtime

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// OnError is what a limit answers when its store does not. The zero OnError is FailClosed.
type OnError uint8

const (
	// FailClosed answers with the store's error: nothing passes.
	FailClosed OnError = iota
	// FailOpen lets the request pass, uncounted, and says so: see [Decision.FailedOpen]. A store also fails that has
	// not answered when the limit's timeout, or the caller's deadline, has come. Require and Wait have
	// nowhere to say it, so have the store say at the start of the program whether it is ready.
	FailOpen
)

// OnErrors lists every OnError.
func OnErrors() []OnError { return []OnError{FailClosed, FailOpen} }

// String returns the word that stands in limits.yaml: "closed".
func (o OnError) String() string {
	switch o {
	case FailClosed:
		return "closed"
	case FailOpen:
		return "open"
	}
	return fmt.Sprintf("OnError(%d)", o)
}

// answerOrFail has the store answer a call within the timeouts of its limits. If the store fails, the
// call passes without it, provided that each of its limits fails open. In a transaction of the caller
// neither holds: a statement that is cancelled there, or has failed, is the end of the transaction.
func (l *Limiter) answerOrFail(ctx context.Context, call []Call) (Answer, error) {
	if l.inTx {
		return l.answer(ctx, call)
	}
	c := call[0]
	bounded, cancel := c.bound(ctx)
	defer cancel()
	answer, err := l.answer(bounded, call)
	if err == nil {
		return answer, nil
	}
	if ended := context.Cause(bounded); errors.Is(ended, errTimeout) && !errors.Is(err, errTimeout) {
		err = fmt.Errorf("%w: %w", ended, err)
	}
	if !c.failsOpen() || errors.Is(ctx.Err(), context.Canceled) {
		return Answer{}, err
	}
	return c.pass(err), nil
}

// answer has the store answer a call.
func (l *Limiter) answer(ctx context.Context, call []Call) (Answer, error) {
	answers, err := l.store.Do(ctx, call)
	if err != nil {
		return Answer{}, err
	}
	return answers[0], nil
}

// errTimeout is why a context has ended that bound put an end to.
var errTimeout = errors.New("the store did not answer in time")

// bound returns a context that ends after the shortest timeout of the limits of a call that decides.
func (c Call) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	shortest := time.Duration(0)
	for _, q := range c.Requests {
		if t := q.Policy.Timeout; q.takes() && t > 0 && (shortest == 0 || t < shortest) {
			shortest = t
		}
	}
	if shortest == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, shortest, fmt.Errorf("%w, %v", errTimeout, shortest))
}

// failsOpen reports whether a call that the store does not answer passes.
func (c Call) failsOpen() bool {
	for _, q := range c.Requests {
		if !q.takes() || q.Policy.OnError != FailOpen {
			return false
		}
	}
	return true
}

// pass lets a call pass for which the store has failed with err. What is wrong with the call itself is an
// error all the same: it is asked of an empty store.
func (c Call) pass(err error) Answer {
	empty := NewBatch([]Call{c})
	for !empty.Run(0, make([]State, len(empty.Rows()))) {
	}
	answer := empty.Answers()[0]
	for i, q := range c.Requests[:len(answer.Decisions)] {
		answer.Decisions[i] = Decision{Limit: q.Policy.Name, Allowed: true, FailedOpen: err}
	}
	return answer
}

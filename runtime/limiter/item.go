package limiter

import (
	"fmt"
	"reflect"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// ReserveItem is an argument of [Limiter.ReserveAll] and [Limiter.Group]: an [Item], a [ReserveOnlyLimit], which takes one
// token, or the result of its method N.
type ReserveItem interface {
	request(of *Limiter) (runtime.Request, error)
}

// Item is an argument of [Limiter.All]: a limit, which takes one token, or the result of its methods N, Checked and
// CheckedN.
type Item interface {
	ReserveItem
	// plain distinguishes the items that can pass without being reserved.
	plain()
}

type item struct {
	of Limit
	op runtime.Op
	n  int64
}

func (i item) request(of *Limiter) (runtime.Request, error) {
	q := runtime.Request{Policy: i.of.policy, Op: i.op, Count: i.n}
	err := i.of.complete(&q)
	if err == nil && !i.of.limiter.joins(of) {
		err = i.of.wrap(fmt.Errorf("%w: the limit has another store, or another transaction", runtime.ErrInvalidCall))
	}
	return q, err
}

// joins reports whether limits of l and of other can be in one call, which they can if they have one store: limits of generated
// code and limits made in Go, for example.
func (l *Limiter) joins(other *Limiter) bool {
	if l == other || l == nil || other == nil || l.inTx || other.inTx {
		return l == other
	}
	of := reflect.TypeOf(l.store)
	return of == reflect.TypeOf(other.store) && of != nil && of.Comparable() && l.store == other.store
}

var errNilItem = fmt.Errorf("%w: a call needs at least one limit, and none may be nil", runtime.ErrInvalidCall)

type plainItem struct{ item }

func (plainItem) plain() {}

// N returns l as an [Item] that takes n tokens.
func (l Limit) N(n int64) Item { return plainItem{item{l, runtime.Take, n}} }

// Checked returns l as an [Item] that must have a token, and gives none up. See CheckedN.
func (l Limit) Checked() Item { return l.CheckedN(1) }

// CheckedN returns l as an [Item] that must have n tokens, and gives none up. It is decided by the tokens before the call:
// tokens that other items of the call take from the same key do not count, and several checks of one key do not add up.
// Its decision has the tokens before the call, too.
func (l Limit) CheckedN(n int64) Item { return plainItem{item{l, runtime.Check, n}} }

func (l Limit) request(of *Limiter) (runtime.Request, error) {
	return item{l, runtime.Take, 1}.request(of)
}

func (Limit) plain() {}

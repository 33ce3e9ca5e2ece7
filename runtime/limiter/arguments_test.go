package limiter_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/runtimetest"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// argument is a value of a parameter, and the error that it must have.
type argument struct {
	name  string
	value any
	want  error
}

// world is a store with some counts, and a handle of every type, for one call.
type world struct {
	*testing.T
	ctx    context.Context
	store  *memstore.Store
	limits *limiter.Limiter

	plain, reserved, only, slots, own *runtime.Policy
	taken                             limiter.Decisions
}

// usesContext is an observer that uses the context of the request, which may be nil.
type usesContext struct{}

func (usesContext) Decided(ctx context.Context, _ runtime.Observation) { _ = ctx.Err() }

func newWorld(t *testing.T) *world {
	w := &world{T: t, ctx: t.Context(), store: still()}
	w.limits = limiter.New(w.store, limiter.Observe(usesContext{}))
	w.plain, w.reserved, w.only = bucket("plain", 10), bucket("reserved", 10), bucket("only", 0)
	w.reserved.MaxReserved, w.only.MaxReserved = 10, 10
	w.plain.Overrides = runtime.OverrideBounds{Rate: 20, Capacity: 20}
	w.slots = &runtime.Policy{Name: "slots", Kind: runtime.InFlight, Slots: 5, Hold: time.Hour}
	own := runtimetest.Once(runtime.Calendar{Unit: runtime.Month, ZonePerKey: true, Anniversary: true})
	w.own = &own
	for _, p := range []*runtime.Policy{w.plain, w.reserved, w.only, w.slots, w.own} {
		require.NoError(t, p.Validate())
	}
	w.taken = must(w.limits.All(w.ctx, w.limits.Limit(w.plain, w.key()), w.limits.Slots(w.slots, w.key())))
	return w
}

func (w *world) key() runtime.Key { return runtime.KeyOf(runtime.Int(1)) }

// handles are a value of each exported type with methods.
func (w *world) handles() []any {
	limit, reservable := w.limits.Limit(w.plain, w.key()), w.limits.Reservable(w.reserved, w.key())
	slots := w.limits.Slots(w.slots, w.key())
	group := w.limits.Group(limit, reservable, w.limits.ReserveOnly(w.only, w.key()).N(1))
	reservation, reservations := must(reservable.Reserve(w.ctx)), must(group.Reserve(w.ctx))
	return []any{
		w.limits, limit, reservable, w.limits.ReserveOnly(w.only, w.key()), slots, w.limits.Overrides(w.plain, w.key()), group,
		must(slots.Acquire(w.ctx)), reservation, reservations, w.taken,
	}
}

// good returns an argument of a type with which a method of a type succeeds, or can.
func (w *world) good(param reflect.Type, of, method string) any {
	switch param {
	case reflect.TypeFor[context.Context]():
		return w.ctx
	case reflect.TypeFor[int64]():
		return int64(1)
	case reflect.TypeFor[int]():
		return 0
	case reflect.TypeFor[runtime.Decision]():
		switch of {
		case "ReserveOnlyLimit":
			return must(w.limits.ReserveOnly(w.only, w.key()).Reserve(w.ctx)).Decision
		case "ReservableLimit":
			return must(w.limits.Reservable(w.reserved, w.key()).Allow(w.ctx))
		}
		return must(w.limits.Limit(w.plain, w.key()).Allow(w.ctx))
	case reflect.TypeFor[[]byte]():
		r := must(w.limits.Reservable(w.reserved, w.key()).Reserve(w.ctx))
		if of == "ReserveOnlyLimit" {
			r = must(w.limits.ReserveOnly(w.only, w.key()).Reserve(w.ctx))
		}
		return must(r.MarshalText())
	case reflect.TypeFor[runtime.Override]():
		return runtime.Override{Rate: 20, Capacity: 20, Until: runtime.ForGood(), Reason: "a test", Author: "a test"}
	case reflect.TypeFor[runtime.Block]():
		return runtime.Block{Until: runtime.ForGood(), Reason: "a test", Author: "a test"}
	case reflect.TypeFor[runtime.OverrideEnd]():
		o := w.limits.Overrides(w.plain, w.key())
		must(o.Block(w.ctx, runtime.Block{Until: runtime.ForGood(), Reason: "a test", Author: "a test"}))
		return runtime.OverrideEnd{Reason: "a test", Author: "a test"}
	case reflect.TypeFor[func(context.Context) error]():
		return func(context.Context) error { return nil }
	case reflect.TypeFor[runtime.Tx]():
		return w.store.Begin()
	case reflect.TypeFor[*sql.Conn]():
		return new(sql.Conn) // which no memstore has
	case reflect.TypeFor[*runtime.Policy]():
		switch method {
		case "Slots":
			return w.slots
		case "Reservable":
			return w.reserved
		case "ReserveOnly":
			return w.only
		}
		return w.plain
	case reflect.TypeFor[runtime.Key]():
		return w.key()
	case reflect.TypeFor[[]limiter.Item]():
		return []limiter.Item{w.limits.Limit(w.plain, w.key())}
	case reflect.TypeFor[[]limiter.ReserveItem]():
		return []limiter.ReserveItem{w.limits.Limit(w.plain, w.key())}
	}
	w.Fatalf("%s.%s has a parameter of the type %v: add it to good and to bad in arguments_test.go", of, method, param)
	return nil
}

// bad returns the arguments of a type that a method must refuse.
func (w *world) bad(param reflect.Type) []argument {
	ended, cancel := context.WithCancel(w.ctx)
	cancel()
	late, cancel := context.WithDeadline(w.ctx, time.Unix(0, 0))
	cancel()
	elsewhere := limiter.New(still())
	items := func(name string, want error, all ...limiter.Item) argument { return argument{name, all, want} }
	switch param {
	case reflect.TypeFor[context.Context]():
		return []argument{{"nil", nil, runtime.ErrInvalidCall}, {"ended", ended, context.Canceled}, {"late", late, context.DeadlineExceeded}}
	case reflect.TypeFor[int64]():
		return []argument{
			{"-1", int64(-1), runtime.ErrInvalidCount}, {"the least", int64(math.MinInt64), runtime.ErrInvalidCount},
			{"the most", int64(math.MaxInt64), runtime.ErrExceedsCapacity}, {"too many", int64(2*runtime.MaxTokens + 9), runtime.ErrExceedsCapacity},
		}
	case reflect.TypeFor[runtime.Decision]():
		other := must(w.limits.Limit(w.plain, runtime.KeyOf(runtime.Int(2))).Allow(w.ctx))
		return []argument{
			{"another key's", other, runtime.ErrInvalidCall}, {"another limit's", must(w.limits.Limit(bucket("x", 9), w.key()).Allow(w.ctx)), runtime.ErrInvalidCall},
			{"another key's, of a call", must(w.limits.All(w.ctx, w.limits.Limit(w.plain, runtime.KeyOf(runtime.Int(3))))).Each[0], runtime.ErrInvalidCall},
		}
	case reflect.TypeFor[[]byte]():
		return []argument{
			{"nil", []byte(nil), runtime.ErrInvalidCall}, {"no reservation", []byte("{}"), runtime.ErrInvalidCall},
			{"another key's", must(must(w.limits.Reservable(w.reserved, runtime.KeyOf(runtime.Int(2))).Reserve(w.ctx)).MarshalText()), runtime.ErrInvalidCall},
		}
	case reflect.TypeFor[runtime.Override]():
		return []argument{
			{"zero", runtime.Override{}, runtime.ErrInvalidOverride},
			{"no end", runtime.Override{Rate: 20, Capacity: 20, Reason: "a", Author: "a"}, runtime.ErrInvalidOverride},
			{"an end too far", runtime.Override{Rate: 20, Capacity: 20, Until: time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC), Reason: "a", Author: "a"}, runtime.ErrInvalidOverride},
			{"too many", runtime.Override{Rate: math.MaxInt64, Until: runtime.ForGood(), Reason: "a", Author: "a"}, runtime.ErrInvalidOverride},
			{"negative", runtime.Override{Rate: -1, Until: runtime.ForGood(), Reason: "a", Author: "a"}, runtime.ErrInvalidOverride},
		}
	case reflect.TypeFor[runtime.Block]():
		return []argument{
			{"zero", runtime.Block{}, runtime.ErrInvalidOverride}, {"no reason", runtime.Block{Until: runtime.ForGood(), Author: "a"}, runtime.ErrInvalidOverride},
			{"an end too far", runtime.Block{Until: time.Unix(1<<62, 0), Reason: "a", Author: "a"}, runtime.ErrInvalidOverride},
			{"an end too early", runtime.Block{Until: time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC), Reason: "a", Author: "a"}, runtime.ErrInvalidOverride},
		}
	case reflect.TypeFor[runtime.OverrideEnd]():
		return []argument{{"zero", runtime.OverrideEnd{}, runtime.ErrInvalidOverride}}
	case reflect.TypeFor[func(context.Context) error]():
		return []argument{{"nil", (func(context.Context) error)(nil), runtime.ErrInvalidCall}}
	case reflect.TypeFor[runtime.Tx]():
		return []argument{{"nil", nil, runtime.ErrNilTx}, {"a nil pointer", (*sql.Tx)(nil), runtime.ErrNilTx}}
	case reflect.TypeFor[*sql.Conn]():
		return []argument{{"nil", (*sql.Conn)(nil), runtime.ErrNilTx}, {"no transaction", new(sql.Conn), runtime.ErrNoTx}}
	case reflect.TypeFor[*runtime.Policy]():
		return []argument{{"nil", (*runtime.Policy)(nil), runtime.ErrInvalidPolicy}, {"zero", &runtime.Policy{}, runtime.ErrInvalidPolicy}}
	case reflect.TypeFor[runtime.Key]():
		return []argument{
			{"empty", runtime.KeyOf(runtime.String("")), runtime.ErrEmptyKey}, {"no address", runtime.KeyOf(runtime.Addr(netip.Addr{})), runtime.ErrInvalidKey},
			{"nil", runtime.KeyOf(runtime.Text(nil)), runtime.ErrInvalidKey}, {"a nil pointer", runtime.KeyOf(runtime.Text((*netip.Addr)(nil))), runtime.ErrInvalidKey},
			{"no prefix", runtime.KeyOf(runtime.AddrPrefix(netip.IPv6Loopback(), 0)), runtime.ErrInvalidKey},
		}
	case reflect.TypeFor[[]limiter.Item]():
		plain, slots := w.limits.Limit(w.plain, w.key()), w.limits.Slots(w.slots, runtime.KeyOf(runtime.Int(2)))
		return []argument{
			items("none", runtime.ErrInvalidCall), items("nil", runtime.ErrInvalidCall, plain, nil),
			items("of another store", runtime.ErrInvalidCall, plain, elsewhere.Limit(w.plain, w.key())),
			items("two holders", runtime.ErrInvalidCall, slots, slots.ItemN(2)), items("two policies", runtime.ErrInvalidCall, plain, w.limits.Limit(bucket("plain", 3), w.key())),
			items("negative", runtime.ErrInvalidCount, plain, plain.N(-1)), items("negative check", runtime.ErrInvalidCount, plain, plain.CheckedN(-1)),
			items("too many", runtime.ErrExceedsCapacity, plain, plain.N(math.MaxInt64)), items("too many together", runtime.ErrExceedsCapacity, plain.N(9), plain.N(9)),
			items("no zone", runtime.ErrInvalidKey, plain, w.limits.Limit(w.own, w.key())),
			items("a zone too far", runtime.ErrInvalidKey, w.limits.Limit(w.own, w.key().In(time.FixedZone("", 57_601)).Since(time.Now()))),
		}
	case reflect.TypeFor[[]limiter.ReserveItem]():
		var all []argument
		for _, a := range w.bad(reflect.TypeFor[[]limiter.Item]()) {
			var items []limiter.ReserveItem
			for _, item := range a.value.([]limiter.Item) {
				items = append(items, item)
			}
			all = append(all, argument{a.name, items, a.want})
		}
		return all
	}
	return nil
}

// accepted are the arguments that bad has and that a method accepts, by "Type.Method argument", each for a reason. A
// method of "*" is one of every type.
var accepted = map[string]string{
	"*.Cancel ended": "it is needed then", "*.Cancel late": "it is needed then", "*.Cancel nil": "it is needed then",
	"*.Settle ended": "it is needed then", "*.Settle late": "it is needed then", "*.Settle nil": "it is needed then",
	"Slot.Release ended": "it is needed then", "Slot.Release late": "it is needed then", "Slot.Release nil": "it is needed then",
	"*.Do ended": "the function decides", "*.Do late": "the function decides",
	"*.RefundN the most": "at most what was taken", "*.RefundN too many": "at most what was taken",
	"Limiter.PeekAll two holders": "each is read by itself", "Limiter.PeekAll two policies": "each is read by itself",
	"Limiter.PeekAll negative": "counts do not matter", "Limiter.PeekAll negative check": "counts do not matter",
	"Limiter.PeekAll too many": "counts do not matter", "Limiter.PeekAll too many together": "counts do not matter",
	"Limiter.PeekAll none": "there is nothing to read",
}

// leavesNothing are calls that refund a reservation, with an error.
var leavesNothing = map[string]bool{
	"Reservation.Wait ended": true, "Reservation.Wait late": true, "Reservations.Wait ended": true, "Reservations.Wait late": true,
}

func isAccepted(of, method, name string) bool {
	return accepted[of+"."+method+" "+name] != "" || accepted["*."+method+" "+name] != ""
}

// Every method of every handle refuses every argument that it cannot use, with an error that says so, and takes nothing. A
// new method is called too, and one with a new type of parameter fails until that has arguments here.
func TestEveryMethodRefusesWhatItCannotUse(t *testing.T) {
	called := 0
	for h, handle := range newWorld(t).handles() {
		value := reflect.ValueOf(handle)
		of := reflect.Indirect(value).Type().Name()
		for m := range value.NumMethod() {
			method := value.Type().Method(m)
			if isOfDecision(method.Name) {
				continue
			}
			for p := range value.Method(m).Type().NumIn() {
				param := value.Method(m).Type().In(p)
				for i, row := range newWorld(t).bad(param) {
					if isAccepted(of, method.Name, row.name) {
						row.want = nil
					}
					name := fmt.Sprintf("%s.%s %s", of, method.Name, row.name)
					w := newWorld(t)
					on := reflect.ValueOf(w.handles()[h]).Method(m)
					args := make([]any, on.Type().NumIn())
					for j := range args {
						args[j] = w.good(on.Type().In(j), of, method.Name)
					}
					args[p] = w.bad(param)[i].value
					before := w.rows()
					results := w.call(on, args)
					err := w.errorOf(results, of, method.Name)
					called++
					if row.want == nil {
						assert.NoError(t, err, name)
						continue
					}
					assert.ErrorIs(t, err, row.want, name)
					if !leavesNothing[of+"."+method.Name+" "+row.name] {
						assert.Equal(t, before, w.rows(), name)
					}
					if errors.Is(row.want, runtime.ErrInvalidCall) {
						assert.Equal(t, runtime.OriginProgram, runtime.OriginOf(err), name)
					}
				}
			}
		}
	}
	require.Greater(t, called, 300)
}

// A refund of another key's decision neither gives tokens back nor uses the decision up, whatever took the tokens. A
// decision that was stored elsewhere has no key.
func TestRefundOfAnotherKeysDecision(t *testing.T) {
	w := newWorld(t)
	limit := func(id int) limiter.Limit { return w.limits.Limit(w.plain, runtime.KeyOf(runtime.Int(id))) }
	d := must(limit(7).AllowN(w.ctx, 4))
	_, err := limit(8).Refund(w.ctx, d)
	require.EqualError(t, err, `limit "plain": invalid call: the decision is one of another key: refund it there`)
	_, err = w.limits.Limit(w.slots, runtime.KeyOf(runtime.Int(7))).Refund(w.ctx, d)
	require.EqualError(t, err, `limit "slots": invalid call: the decision is one of limit "plain": refund it there`)
	require.NotContains(t, fmt.Sprintf("%v %+v %#v", d, d, d), `"7"`, "a decision prints no key")
	require.EqualValues(t, 6, must(limit(7).Peek(w.ctx)).Remaining)
	require.EqualValues(t, 10, must(limit(7).RefundN(w.ctx, d, 4)).Remaining)

	stored := must(limit(7).AllowN(w.ctx, 4))
	d = runtime.Decision{Limit: stored.Limit, Policy: stored.Policy, Allowed: true, Taken: 4, TakenAt: stored.TakenAt}
	d.Receipt.Total = stored.Receipt.Total
	require.EqualValues(t, 10, must(limit(7).RefundN(w.ctx, d, 4)).Remaining)
}

// A fake clock may begin at the instant 0, which in a stored request means that tokens belong to none.
func TestRefundAtTheInstantZero(t *testing.T) {
	now := time.Unix(0, 0)
	limits, p := limiter.New(clocked(&now)), bucket("limit", 10)
	l := limits.Limit(p, runtime.Key{})
	first, second := must(l.AllowN(t.Context(), 3)), must(l.AllowN(t.Context(), 3))
	require.EqualValues(t, 7, must(l.RefundN(t.Context(), first, 3)).Remaining)
	require.EqualValues(t, 10, must(l.RefundN(t.Context(), second, 3)).Remaining)
}

// Indexes without an item are like an item that has taken nothing, for every method with an index.
func TestIndexesWithoutAnItem(t *testing.T) {
	indexed := 0
	for h, handle := range newWorld(t).handles() {
		value := reflect.ValueOf(handle)
		for m := range value.NumMethod() {
			if f := value.Method(m).Type(); f.NumIn() != 1 || f.In(0) != reflect.TypeFor[int]() {
				continue
			}
			indexed++
			for _, i := range []int{-1, 9, math.MaxInt, math.MinInt} {
				w := newWorld(t)
				name := value.Type().Method(m).Name
				results := reflect.ValueOf(w.handles()[h]).Method(m).Call([]reflect.Value{reflect.ValueOf(i)})
				switch first := results[0].Interface().(type) {
				case runtime.Key:
					require.Equal(t, runtime.Key{}, first, name)
				case time.Time:
					require.Zero(t, first, name)
				case *limiter.Reservation:
					if len(results) == 2 {
						require.False(t, results[1].Bool(), name)
						continue
					}
					require.ErrorIs(t, first.Settle(w.ctx, 1), runtime.ErrNotReserved, name)
					require.ErrorIs(t, first.Cancel(w.ctx), runtime.ErrNotReserved, name)
					require.Equal(t, runtime.Never, first.Delay(), name)
				default:
					require.False(t, results[1].Bool(), name)
				}
			}
		}
	}
	require.Equal(t, 4+5, indexed, "Key, Settlement, Slot and ResetAt of Decisions and of Reservations, and At")
}

// The functions of the package for a request's context take any context.
func TestFunctionsOfAContext(t *testing.T) {
	var none context.Context
	_, ok := limiter.Taken(none)
	require.False(t, ok)
	require.ErrorIs(t, limiter.Settle(none, 1), limiter.ErrNotTaken)
	require.ErrorIs(t, limiter.SettleLimit(none, "plain", 1), limiter.ErrNotTaken)
	w := newWorld(t)
	taken := limiter.WithTaken(w.ctx, w.taken)
	require.ErrorIs(t, limiter.Settle(taken, -1), runtime.ErrInvalidCount)
	require.ErrorIs(t, limiter.SettleLimit(taken, "other", 1), limiter.ErrNotTaken)
	require.NoError(t, limiter.Settle(taken, 1))
	without := limiter.WithTaken(none, w.taken)
	require.NoError(t, without.Err())
	require.Nil(t, without.Value("any"))
	require.ErrorIs(t, limiter.SettleLimit(without, "other", 1), limiter.ErrNotTaken)
}

// The zero handles, and nil where that is a handle, return errors.
func TestZeroHandlesReturnErrors(t *testing.T) {
	w := newWorld(t)
	for _, handle := range []any{
		(*limiter.Limiter)(nil), &limiter.Limiter{}, limiter.Limit{}, limiter.ReservableLimit{}, limiter.ReserveOnlyLimit{}, limiter.SlotLimit{},
		limiter.Overrides{}, limiter.Group{}, (*limiter.Slot)(nil), &limiter.Slot{}, &limiter.Reservation{}, &limiter.Reservations{}, limiter.Decisions{},
	} {
		value := reflect.ValueOf(handle)
		of := value.Type().String()
		for m := range value.NumMethod() {
			method := value.Type().Method(m)
			if isOfDecision(method.Name) {
				continue
			}
			on := value.Method(m)
			args := make([]any, on.Type().NumIn())
			for j := range args {
				args[j] = w.good(on.Type().In(j), reflect.TypeOf(handle).Name(), method.Name)
			}
			results := w.call(on, args)
			if n := len(args); n > 0 && on.Type().In(0) == reflect.TypeFor[context.Context]() {
				assert.Error(t, w.errorOf(results, of, method.Name), "%s.%s", of, method.Name)
			}
		}
	}
}

// isOfDecision reports whether a handle has a method because it embeds a Decision, which has no arguments of a user.
func isOfDecision(method string) bool {
	_, ok := reflect.TypeFor[*runtime.Decision]().MethodByName(method)
	return ok
}

// rows returns the rows of the store.
func (w *world) rows() (all []runtime.StoredRow) {
	for _, name := range []string{"plain", "reserved", "only", "slots", w.own.Name, "x"} {
		rows, _, err := w.store.Rows(w.ctx, runtime.Row{Name: name, Shard: -1}, runtime.RowPage)
		require.NoError(w, err)
		all = append(all, rows...)
	}
	return all
}

// call calls a method, and panics with its name.
func (w *world) call(method reflect.Value, args []any) []reflect.Value {
	in := make([]reflect.Value, len(args))
	for i, a := range args {
		if in[i] = reflect.ValueOf(a); a == nil {
			in[i] = reflect.Zero(method.Type().In(i))
		}
	}
	if method.Type().IsVariadic() {
		return method.CallSlice(in)
	}
	return method.Call(in)
}

// errorOf returns the error of a method: its own, or the error of its result when that is used.
func (w *world) errorOf(results []reflect.Value, of, method string) error {
	if len(results) == 0 {
		return nil
	}
	if err, ok := results[len(results)-1].Interface().(error); ok && err != nil {
		return err
	}
	ctx := w.ctx
	switch first := results[0].Interface().(type) {
	case *limiter.Limiter:
		return first.Limit(w.plain, w.key()).Require(ctx)
	case limiter.Overrides:
		_, err := first.History(ctx)
		return err
	case limiter.Limit:
		return first.Require(ctx)
	case limiter.ReservableLimit:
		return first.Require(ctx)
	case limiter.ReserveOnlyLimit:
		_, err := first.Reserve(ctx)
		return err
	case limiter.SlotLimit:
		_, err := first.Acquire(ctx)
		return err
	case limiter.Group:
		_, err := first.Allow(ctx)
		// All verbs of a group refuse the same.
		_, checked := first.Check(ctx)
		_, reserved := first.Reserve(ctx)
		assert.Equal(w, err == nil, checked == nil, "%s.%s: Check of a group: %v", of, method, checked)
		if !errors.Is(err, runtime.ErrExceedsCapacity) {
			assert.Equal(w, err == nil, reserved == nil, "%s.%s: Reserve of a group: %v", of, method, reserved)
			assert.Equal(w, err == nil, first.Require(ctx) == nil, "%s.%s: Require of a group", of, method)
		}
		return err
	case limiter.ReserveItem:
		_, err := w.limits.ReserveAll(ctx, first)
		_, peeked := w.limits.PeekAll(ctx, first)
		assert.NoError(w, peeked)
		return err
	}
	return nil
}

// A debt that an int64 cannot hold is not no use.
func TestUsedOfAHugeDebt(t *testing.T) {
	limits, p := limiter.New(still()), bucket("limit", 10)
	p.MaxReserved = runtime.Unbounded
	l := limits.Limit(p, runtime.Key{})
	for range 5_000 {
		must(l.Charge(t.Context(), 2*runtime.MaxTokens))
	}
	require.Greater(t, must(l.Peek(t.Context())).Used, int64(1<<61))
}

// What a result embeds keeps its meaning: a method with the name of a field would hide it.
func TestNoMethodHidesAnEmbeddedField(t *testing.T) {
	for _, result := range []any{&limiter.Reservation{}, &limiter.Reservations{}, &limiter.Slot{}} {
		of := reflect.TypeOf(result)
		for _, f := range reflect.VisibleFields(of.Elem()) {
			_, hidden := of.MethodByName(f.Name)
			require.False(t, hidden, "%v: method and field %s", of, f.Name)
		}
	}
}

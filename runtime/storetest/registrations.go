package storetest

import (
	"context"
	"errors"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// registrations returns the clauses about limits that are another program's.
func registrations() []clause {
	mine, theirs, other := registered("example.com/mine", "int64"), registered("example.com/theirs", "int64"), registered("example.com/mine", "string")
	byHand := *mine
	byHand = runtime.Policy{Name: byHand.Name, Kind: byHand.Kind, Rate: byHand.Rate, Period: byHand.Period, Capacity: byHand.Capacity}
	beside := basic(runtime.FixedWindow)
	edited := func(p *runtime.Policy) { p.Rate, p.Capacity = 20, 20 }
	return []clause{{
		name: "Registrations", policies: []*runtime.Policy{mine},
		rule: "a limit belongs to its owner: those of another one, or with another key, are refused and take nothing, and calls beside them go on",
		check: func(s *subject, p *runtime.Policy) {
			if m, ok := s.store.(interface {
				Migrate(ctx context.Context, policies ...*runtime.Policy) error
			}); ok {
				if err := m.Migrate(s.ctx, p); err != nil {
					s.Fatalf("Migrate: %v", err)
				}
			}
			s.play(p, []step{
				take(3),
				take(1).by(theirs).fails(runtime.ErrForeignCounts),
				take(1).by(other).fails(runtime.ErrForeignCounts),
				left(0).by(theirs).fails(runtime.ErrForeignCounts),
				reset().by(theirs).fails(runtime.ErrForeignCounts),
				left(7),
				all(take(1).by(beside), take(1).by(theirs).fails(runtime.ErrForeignCounts)),
				batch(take(1), take(1).by(other).fails(runtime.ErrForeignCounts), take(1).by(beside), take(1)),
				left(5),
				left(9).by(beside),
				// A policy by hand has no owner, and an edit of the numbers keeps it.
				take(1).by(&byHand),
				take(1).edited(edited),
				left(3),
			})
			if e, ok := s.store.(runtime.Eraser); ok {
				limit := limiter.New(s.store).Limit(theirs, runtime.KeyOf(runtime.String("k")))
				if err := limit.Erase(s.ctx); !errors.Is(err, runtime.ErrForeignCounts) {
					s.broken("Erase of %T by the other owner: %v", e, err)
				}
			}
		},
	}}
}

// registered returns a policy of an owner, with a key.
func registered(owner, key string) *runtime.Policy {
	p := bucket()
	p.Name = "registered"
	runtime.NewCatalog(owner, runtime.Catalog{Limits: []runtime.CatalogLimit{{
		Name: p.Name, Key: []runtime.CatalogKey{{Name: "id", Type: key}}, Policies: []*runtime.Policy{p},
	}}})
	return p
}

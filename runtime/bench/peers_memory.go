package main

import (
	"context"
	"sync"
	"time"

	"github.com/sethvargo/go-limiter/memorystore"
	"golang.org/x/time/rate"
)

// openXTimeRate opens a map from keys to limiters of golang.org/x/time/rate, which has none of its own.
func openXTimeRate(_ context.Context, _ *site, l limit) (*opened, error) {
	var limiters sync.Map
	perSecond := rate.Limit(float64(l.rate) / l.period.Seconds())
	return &opened{
		ask: func(_ context.Context, key string) (bool, error) {
			limiter, ok := limiters.Load(key)
			if !ok {
				limiter, _ = limiters.LoadOrStore(key, rate.NewLimiter(perSecond, l.capacity))
			}
			return limiter.(*rate.Limiter).Allow(), nil
		},
		close: limiters.Clear,
	}, nil
}

// openGoLimiter opens the memory store of sethvargo/go-limiter. After its first interval it grants fewer
// tokens than it was told, so that is longer than any run.
func openGoLimiter(_ context.Context, _ *site, l limit) (*opened, error) {
	store, err := memorystore.New(&memorystore.Config{Tokens: uint64(l.capacity), Interval: 24 * time.Hour})
	if err != nil {
		return nil, err
	}
	return &opened{
		ask: func(ctx context.Context, key string) (bool, error) {
			_, _, _, ok, err := store.Take(ctx, key)
			return ok, err
		},
		close: func() { patiently(store.Close) },
	}, nil
}

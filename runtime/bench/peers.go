package main

import (
	"context"
	"sync"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	"golang.org/x/time/rate"
)

// bareUpsert opens a contender on a server, or on SQLite without one, that writes rows without a decision.
func bareUpsert(of server) opener {
	return func(ctx context.Context, s *site, l limit) (*instance, error) {
		t, err := s.openTable(ctx, of, l)
		if err != nil {
			return nil, err
		}
		return t.upserting(l)
	}
}

func (t *table) upserting(l limit) (*instance, error) {
	upsert, err := t.prepareUpsert()
	if err != nil {
		t.drop()
		return nil, err
	}
	take := func(ctx context.Context, key string) (bool, error) {
		// The timestamp changes, because databases skip the write of an unchanged row.
		_, err := upsert.ExecContext(ctx, l.name, key, 0, 1.0, time.Now().UnixNano(), 0.0)
		return err == nil, err
	}
	return &instance{take: take, close: t.drop}, nil
}

// openXTimeRate opens a map from keys to limiters of golang.org/x/time/rate, which has no keys of its own.
func openXTimeRate(_ context.Context, _ *site, l limit) (*instance, error) {
	var limiters sync.Map
	perSecond := rate.Limit(float64(l.rate) / l.period.Seconds())
	return &instance{
		take: func(_ context.Context, key string) (bool, error) {
			limiter, ok := limiters.Load(key)
			if !ok {
				// Another goroutine may have stored a limiter meanwhile.
				limiter, _ = limiters.LoadOrStore(key, rate.NewLimiter(perSecond, l.capacity))
			}
			return limiter.(*rate.Limiter).Allow(), nil
		},
		close: limiters.Clear,
	}, nil
}

// redisRateOn opens go-redis/redis_rate, which runs a script in Redis.
func redisRateOn(of server) opener {
	return func(_ context.Context, s *site, l limit) (*instance, error) {
		client, err := s.openRedis(of)
		if err != nil {
			return nil, err
		}
		limiter := redis_rate.NewLimiter(client)
		rule := redis_rate.Limit{Rate: l.rate, Burst: l.capacity, Period: l.period}
		return &instance{
			take: func(ctx context.Context, key string) (bool, error) {
				r, err := limiter.Allow(ctx, key, rule)
				return err == nil && r.Allowed > 0, err
			},
			close: deleteAndClose(client, "rate:"),
		}, nil
	}
}

// openThrottled opens throttled, which reads, decides, and writes by compare-and-swap.
func openThrottled(_ context.Context, s *site, l limit) (*instance, error) {
	client, err := s.openRedis(redisDB)
	if err != nil {
		return nil, err
	}
	const prefix = "throttled:"
	store, err := goredisstore.NewCtx(client, prefix)
	if err != nil {
		client.Close()
		return nil, err
	}
	limiter, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		// throttled allows one request more than MaxBurst at once.
		MaxRate: throttled.PerDuration(l.rate, l.period), MaxBurst: l.capacity - 1,
	})
	if err != nil {
		client.Close()
		return nil, err
	}
	take := func(ctx context.Context, key string) (bool, error) {
		limited, _, err := limiter.RateLimitCtx(ctx, key, 1)
		return err == nil && !limited, err
	}
	return &instance{take: take, close: deleteAndClose(client, prefix)}, nil
}

package main

import (
	"context"
	"sync"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	"golang.org/x/time/rate"
)

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

// openGoLimiter opens the memory store of sethvargo/go-limiter.
func openGoLimiter(_ context.Context, _ *site, l limit) (*instance, error) {
	// After its first interval it grants fewer tokens than configured, so the interval is longer than any run.
	store, err := memorystore.New(&memorystore.Config{Tokens: uint64(l.capacity), Interval: 24 * time.Hour})
	if err != nil {
		return nil, err
	}
	return &instance{
		take: func(ctx context.Context, key string) (bool, error) {
			_, _, _, ok, err := store.Take(ctx, key)
			return ok, err
		},
		close: func() { withSetupTimeout(store.Close) },
	}, nil
}

// redisConns is how many connections a contender has to Redis.
const redisConns = 64

func (s *site) openRedis() (*redis.Client, error) {
	dsn, err := s.servers.dsn(redisDB)
	if err != nil {
		return nil, err
	}
	o, err := redis.ParseURL(dsn)
	if err != nil {
		return nil, err
	}
	o.PoolSize = s.connections(redisConns)
	// Callers outnumber connections. They must wait for one, not fail.
	o.PoolTimeout = setupTimeout
	client := redis.NewClient(o)
	if err := withSetupTimeout(func(ctx context.Context) error { return client.Ping(ctx).Err() }); err != nil {
		client.Close()
		return nil, err
	}
	return client, nil
}

// openRedisRate opens go-redis/redis_rate, which runs a script in Redis.
func openRedisRate(_ context.Context, s *site, l limit) (*instance, error) {
	client, err := s.openRedis()
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

// openThrottled opens throttled, which reads, decides, and writes by compare-and-swap.
func openThrottled(_ context.Context, s *site, l limit) (*instance, error) {
	client, err := s.openRedis()
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
	return &instance{
		take: func(ctx context.Context, key string) (bool, error) {
			limited, _, err := limiter.RateLimitCtx(ctx, key, 1)
			return err == nil && !limited, err
		},
		close: deleteAndClose(client, prefix),
	}, nil
}

// deleteAndClose returns a function that deletes the keys with a prefix and closes the client.
func deleteAndClose(client *redis.Client, prefix string) func() {
	return func() {
		defer closeAndLog(client)
		err := withSetupTimeout(func(ctx context.Context) error { return deleteKeys(ctx, client, prefix+keyPrefix+"*") })
		if err != nil {
			logf("keys %s%s* were not deleted from Redis: %v", prefix, keyPrefix, err)
		}
	}
}

func deleteKeys(ctx context.Context, client *redis.Client, pattern string) error {
	keys := client.Scan(ctx, 0, pattern, 1000).Iterator()
	for keys.Next(ctx) {
		// Del would block the server, which other contenders may be using.
		if err := client.Unlink(ctx, keys.Val()).Err(); err != nil {
			return err
		}
	}
	return keys.Err()
}

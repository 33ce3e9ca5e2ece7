package main

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	ulule "github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
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

// openUlule opens ulule/limiter, which counts calls in windows, by a script in Redis.
func openUlule(_ context.Context, s *site, l limit) (*instance, error) {
	client, err := s.openRedis(redisDB)
	if err != nil {
		return nil, err
	}
	const prefix = "ulule"
	store, err := ululeredis.NewStoreWithOptions(client, ulule.StoreOptions{Prefix: prefix})
	if err != nil {
		client.Close()
		return nil, err
	}
	// The window is longer than any run, because the limit of a window is the capacity.
	rate := ulule.Rate{Period: 24 * time.Hour, Limit: int64(l.capacity)}
	return &instance{
		take: func(ctx context.Context, key string) (bool, error) {
			c, err := store.Get(ctx, key, rate)
			return err == nil && !c.Reached, err
		},
		close: deleteAndClose(client, prefix+":"),
	}, nil
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
	take, err := throttledOn(store, l)
	if err != nil {
		client.Close()
		return nil, err
	}
	return &instance{take: take, close: deleteAndClose(client, prefix)}, nil
}

// throttledOn returns the decisions of throttled on a store.
func throttledOn(store throttled.GCRAStoreCtx, l limit) (takeFunc, error) {
	limiter, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		// throttled allows one request more than MaxBurst at once.
		MaxRate: throttled.PerDuration(l.rate, l.period), MaxBurst: l.capacity - 1,
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, key string) (bool, error) {
		limited, _, err := limiter.RateLimitCtx(ctx, key, 1)
		return err == nil && !limited, err
	}, nil
}

// openThrottledOnPostgres opens throttled with its counts in a table. It has no store for a SQL database, but an interface
// for stores, so this is the store that an app would write.
func openThrottledOnPostgres(ctx context.Context, s *site, l limit) (*instance, error) {
	t, err := s.openTable(ctx, postgres, l)
	if err != nil {
		return nil, err
	}
	store := &throttledRows{name: l.name}
	take, err := throttledOn(store, l)
	if err == nil {
		err = store.prepare(t)
	}
	if err != nil {
		t.drop()
		return nil, err
	}
	return &instance{take: take, close: t.drop}, nil
}

// throttledRows is a store of throttled whose values are in the column ts. Its rows do not expire.
type throttledRows struct {
	name               string
	read, insert, swap *sql.Stmt
}

func (r *throttledRows) prepare(t *table) (err error) {
	r.read, err = t.prepare("SELECT ts FROM {table} WHERE name = ? AND {key} = ?")
	if err != nil {
		return err
	}
	r.insert, err = t.prepare(insertInto + "VALUES (?, ?, 0, 0, ?, 0) ON CONFLICT DO NOTHING")
	if err != nil {
		return err
	}
	r.swap, err = t.prepare("UPDATE {table} SET ts = ? WHERE name = ? AND {key} = ? AND ts = ?")
	return err
}

func (r *throttledRows) GetWithTime(ctx context.Context, key string) (value int64, now time.Time, err error) {
	err = r.read.QueryRowContext(ctx, r.name, key).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		value, err = -1, nil
	}
	return value, time.Now(), err
}

func (r *throttledRows) SetIfNotExistsWithTTL(ctx context.Context, key string, value int64, _ time.Duration) (bool, error) {
	return isOneRow(r.insert.ExecContext(ctx, r.name, key, value))
}

func (r *throttledRows) CompareAndSwapWithTTL(ctx context.Context, key string, old, value int64, _ time.Duration) (bool, error) {
	return isOneRow(r.swap.ExecContext(ctx, value, r.name, key, old))
}

// isOneRow reports whether a statement has changed a row.
func isOneRow(r sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := r.RowsAffected()
	return n == 1, err
}

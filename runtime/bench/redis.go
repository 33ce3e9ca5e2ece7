package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	ulule "github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
)

// redisConns is how many connections a contender has to Redis. rueidis has one.
const redisConns = 64

func (s *site) openRedis(of server) (*redis.Client, error) {
	o, err := redis.ParseURL(s.servers[of])
	if err != nil {
		return nil, err
	}
	o.PoolSize = redisConns
	// Callers outnumber connections. They must wait for one, not fail.
	o.PoolTimeout = setupTimeout
	client := redis.NewClient(o)
	if err := withSetupTimeout(func(ctx context.Context) error { return client.Ping(ctx).Err() }); err != nil {
		client.Close()
		return nil, err
	}
	return client, nil
}

// limiterOn returns the takeFunc of a limiter on Redis, whose keys begin with prefix, and a function that ends it, or nil.
type limiterOn func(client *redis.Client, prefix string, l limit) (take takeFunc, end func(), err error)

// onRedis opens a limiter on a Redis. At its end, its keys are deleted.
func onRedis(of server, prefix string, open limiterOn) opener {
	return func(_ context.Context, s *site, l limit) (*instance, error) {
		client, err := s.openRedis(of)
		if err != nil {
			return nil, err
		}
		take, end, err := open(client, prefix, l)
		if err != nil {
			client.Close()
			return nil, err
		}
		return &instance{take: take, close: func() {
			defer closeAndLog(client)
			if end != nil {
				end()
			}
			err := withSetupTimeout(func(ctx context.Context) error { return deleteKeys(ctx, client, prefix+keyPrefix+"*") })
			if err != nil {
				logf("keys %s%s* were not deleted from Redis: %v", prefix, keyPrefix, err)
			}
		}}, nil
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

// script is a limiter that runs in Redis, and returns whether the call is allowed and milliseconds: until a retry can pass,
// or until the window ends.
type script struct {
	text string
	// args returns its arguments.
	args func(l limit) [2]int64
}

// gcra is the algorithm of redis_rate and throttled, in as few commands as it takes. Its arguments are the microseconds in
// which a token accrues and in which all do, by the clock of Redis. It keeps the instant at which the bucket is full.
var gcra = script{`
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local full = math.max(tonumber(redis.call('GET', KEYS[1])) or now, now) + ARGV[1]
local wait = full - now - ARGV[2]
if wait > 0 then return {0, math.ceil(wait / 1000)} end
redis.call('SET', KEYS[1], string.format('%.0f', full), 'PX', math.ceil((full - now) / 1000))
return {1, 0}`, func(l limit) [2]int64 {
	token := l.period.Microseconds() / int64(l.rate)
	return [2]int64{token, token * int64(l.capacity)}
}}

// window counts the calls in a window that begins with the first one, as ulule/limiter and rueidislimiter do, with fewer
// commands than either. Its arguments are the limit and the milliseconds of a window.
var window = script{`
local n = redis.call('INCR', KEYS[1])
if n == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
if n > tonumber(ARGV[1]) then return {0, redis.call('PTTL', KEYS[1])} end
return {1, 0}`, func(l limit) [2]int64 { return [2]int64{int64(l.capacity), l.whole().Milliseconds()} }}

// byRueidis runs a script by rueidis, which pipelines the commands of concurrent callers by itself.
func byRueidis(by script) limiterOn {
	return func(redisClient *redis.Client, prefix string, l limit) (takeFunc, func(), error) {
		o := redisClient.Options()
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{o.Addr}, Username: o.Username, Password: o.Password, SelectDB: o.DB,
			// The settings that cost least: with the defaults, of four connections and no delay, 64 callers pay half as much again.
			PipelineMultiplex: -1, MaxFlushDelay: 20 * time.Microsecond,
		})
		if err != nil {
			return nil, nil, err
		}
		run, of := rueidis.NewLuaScript(by.text), by.args(l)
		args := []string{strconv.FormatInt(of[0], 10), strconv.FormatInt(of[1], 10)}
		return func(ctx context.Context, key string) (bool, error) {
			answer, err := run.Exec(ctx, client, []string{prefix + key}, args).AsIntSlice()
			return err == nil && answer[0] == 1, err
		}, client.Close, nil
	}
}

// redisRate is go-redis/redis_rate, which runs a script in Redis, on a connection for each call.
func redisRate(client *redis.Client, _ string, l limit) (takeFunc, func(), error) {
	return redisRateBy(redis_rate.NewLimiter(client), l), nil, nil
}

// redisRatePipelined is redis_rate with the pipelines of go-redis.
func redisRatePipelined(client *redis.Client, _ string, l limit) (takeFunc, func(), error) {
	pipeline, err := client.AutoPipeline()
	return redisRateBy(redis_rate.NewLimiter(pipeline), l), nil, err
}

func redisRateBy(limiter *redis_rate.Limiter, l limit) takeFunc {
	rule := redis_rate.Limit{Rate: l.rate, Burst: l.capacity, Period: l.period}
	return func(ctx context.Context, key string) (bool, error) {
		r, err := limiter.Allow(ctx, key, rule)
		return err == nil && r.Allowed > 0, err
	}
}

// ululeLimiter is ulule/limiter, a window by a script in Redis.
func ululeLimiter(client *redis.Client, prefix string, l limit) (takeFunc, func(), error) {
	store, err := ululeredis.NewStoreWithOptions(client, ulule.StoreOptions{Prefix: strings.TrimSuffix(prefix, ":")})
	if err != nil {
		return nil, nil, err
	}
	limiter := ulule.New(store, ulule.Rate{Period: l.whole(), Limit: int64(l.capacity)})
	return func(ctx context.Context, key string) (bool, error) {
		c, err := limiter.Get(ctx, key)
		return err == nil && !c.Reached, err
	}, nil, nil
}

// throttledLimiter is throttled, which reads, decides, and writes by compare-and-swap.
func throttledLimiter(client *redis.Client, prefix string, l limit) (takeFunc, func(), error) {
	store, err := goredisstore.NewCtx(client, prefix)
	if err != nil {
		return nil, nil, err
	}
	limiter, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		// throttled allows one request more than MaxBurst at once.
		MaxRate: throttled.PerDuration(l.rate, l.period), MaxBurst: l.capacity - 1,
	})
	return func(ctx context.Context, key string) (bool, error) {
		limited, _, err := limiter.RateLimitCtx(ctx, key, 1)
		return err == nil && !limited, err
	}, nil, err
}

func (s *site) redisSettings(ctx context.Context, of server) (string, error) {
	client, err := s.openRedis(of)
	if err != nil {
		return "", err
	}
	defer closeAndLog(client)
	info, noInfo := client.InfoMap(ctx, "server").Result()
	set, noConfig := client.ConfigGet(ctx, "*").Result()
	text := fmt.Sprintf("Redis %s, save %q, appendonly %q, appendfsync %q",
		info["Server"]["redis_version"], set["save"], set["appendonly"], set["appendfsync"])
	return text, errors.Join(noInfo, noConfig)
}

// startRedis starts the server redisDurable in the directory of the site. stop ends it.
func (s *site) startRedis() (stop func(), err error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errors.New("the program redis-server was not found")
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(s.dir, "redis")
	if err != nil {
		return nil, err
	}
	command := exec.Command(program, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir,
		"--save", "", "--appendonly", "yes", "--appendfsync", "always")
	if err := command.Start(); err != nil {
		return nil, err
	}
	stop = func() {
		command.Process.Kill()
		command.Wait()
	}
	s.servers[redisDurable] = fmt.Sprintf("redis://127.0.0.1:%d/0", port)
	for end := time.Now().Add(setupTimeout); ; time.Sleep(20 * time.Millisecond) {
		client, err := s.openRedis(redisDurable)
		if err == nil {
			return stop, client.Close()
		}
		if time.Now().After(end) {
			stop()
			return nil, fmt.Errorf("the Redis of the benchmark did not start: %w", err)
		}
	}
}

// freePort returns a TCP port that nothing listens on.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}

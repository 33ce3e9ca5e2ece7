package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	ulule "github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
)

// redisConns is how many connections a contender has to Redis without pipelines. rueidis has 1 << rueidisMultiplex, its default.
const (
	redisConns       = 64
	rueidisMultiplex = 2
)

func (s *site) openRedis(of server) (*redis.Client, error) {
	o, err := redis.ParseURL(s.servers[of])
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

// script is a limiter that runs in Redis, and returns whether the call is allowed and milliseconds: until a retry can pass, or until
// the window ends.
type script struct {
	prefix, text string
	// args returns its arguments.
	args func(l limit) []string
}

// gcra is the algorithm of redis_rate and throttled, in as few commands as it takes. Its arguments are the microseconds in which a
// token accrues and in which all do, by the clock of Redis. It keeps the instant at which the bucket is full.
var gcra = script{
	prefix: "gcra:",
	text: `
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local full = math.max(tonumber(redis.call('GET', KEYS[1])) or now, now) + ARGV[1]
local wait = full - now - ARGV[2]
if wait > 0 then return {0, math.ceil(wait / 1000)} end
redis.call('SET', KEYS[1], string.format('%.0f', full), 'PX', math.ceil((full - now) / 1000))
return {1, 0}`,
	args: func(l limit) []string {
		token := l.period.Microseconds() / int64(l.rate)
		return []string{strconv.FormatInt(token, 10), strconv.FormatInt(token*int64(l.capacity), 10)}
	},
}

// window counts the calls in a window that begins with the first one, as ulule/limiter and rueidislimiter do, with fewer commands than
// either. Its arguments are the limit and the milliseconds of a window.
var window = script{
	prefix: "window:",
	text: `
local n = redis.call('INCR', KEYS[1])
if n == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
if n > tonumber(ARGV[1]) then return {0, redis.call('PTTL', KEYS[1])} end
return {1, 0}`,
	args: func(l limit) []string {
		return []string{strconv.Itoa(l.capacity), strconv.FormatInt(l.whole().Milliseconds(), 10)}
	},
}

// rueidisOn opens a script behind rueidis, which pipelines the commands of concurrent callers by itself.
func rueidisOn(of server, by script) opener {
	return func(_ context.Context, s *site, l limit) (*instance, error) {
		o, err := rueidis.ParseURL(s.servers[of])
		if err != nil {
			return nil, err
		}
		o.PipelineMultiplex = rueidisMultiplex
		if s.oneConn {
			o.PipelineMultiplex = -1
		}
		client, err := rueidis.NewClient(o)
		if err != nil {
			return nil, err
		}
		deleted, err := s.openRedis(of)
		if err != nil {
			client.Close()
			return nil, err
		}
		run, args := rueidis.NewLuaScript(by.text), by.args(l)
		return &instance{
			take: func(ctx context.Context, key string) (bool, error) {
				answer, err := run.Exec(ctx, client, []string{by.prefix + key}, args).AsIntSlice()
				return err == nil && answer[0] == 1, err
			},
			close: func() {
				client.Close()
				deleteAndClose(deleted, by.prefix)()
			},
		}, nil
	}
}

// redisRateOn opens go-redis/redis_rate, which runs a script in Redis, with a connection for each call or, as of late, with the
// pipelines of go-redis.
func redisRateOn(of server, pipelined bool) opener {
	return func(_ context.Context, s *site, l limit) (*instance, error) {
		client, err := s.openRedis(of)
		if err != nil {
			return nil, err
		}
		limiter := redis_rate.NewLimiter(client)
		if pipelined {
			pipeline, err := client.AutoPipeline()
			if err != nil {
				client.Close()
				return nil, err
			}
			limiter = redis_rate.NewLimiter(pipeline)
		}
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

// openUlule opens ulule/limiter, a window by a script in Redis.
func openUlule(_ context.Context, s *site, l limit) (*instance, error) {
	client, err := s.openRedis(redisDB)
	if err != nil {
		return nil, err
	}
	store, err := ululeredis.NewStoreWithOptions(client, ulule.StoreOptions{Prefix: "ulule"})
	if err != nil {
		client.Close()
		return nil, err
	}
	limiter := ulule.New(store, ulule.Rate{Period: l.whole(), Limit: int64(l.capacity)})
	return &instance{
		take: func(ctx context.Context, key string) (bool, error) {
			c, err := limiter.Get(ctx, key)
			return err == nil && !c.Reached, err
		},
		close: deleteAndClose(client, "ulule:"),
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
	address := fmt.Sprintf("127.0.0.1:%d", port)
	if err := waitFor(address, setupTimeout); err != nil {
		stop()
		return nil, fmt.Errorf("the Redis of the benchmark did not start: %w", err)
	}
	s.servers[redisDurable] = "redis://" + address + "/0"
	return stop, nil
}

// freePort returns a TCP port that nothing listens on.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// redisConns is how many connections a contender has to Redis.
const redisConns = 64

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

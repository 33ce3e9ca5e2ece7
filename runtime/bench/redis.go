package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisConns is how many connections a contender has to Redis.
const redisConns = 64

func (s *site) openRedis(of server) (*redis.Client, error) {
	dsn, err := s.servers.dsn(of)
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

// redisInfo returns a field of the server's description of itself.
func (s *site) redisInfo(ctx context.Context, of server, field string) (string, error) {
	client, err := s.openRedis(of)
	if err != nil {
		return "", err
	}
	defer closeAndLog(client)
	info, err := client.InfoMap(ctx, "server").Result()
	return info["Server"][field], err
}

func (s *site) redisSettings(ctx context.Context, of server) (string, error) {
	client, err := s.openRedis(of)
	if err != nil {
		return "", err
	}
	defer closeAndLog(client)
	info, err := client.InfoMap(ctx, "server").Result()
	if err != nil {
		return "", err
	}
	text := "Redis " + info["Server"]["redis_version"]
	for _, name := range []string{"save", "appendonly", "appendfsync"} {
		value, err := client.ConfigGet(ctx, name).Result()
		if err != nil {
			return "", err
		}
		text += ", " + name + ` "` + value[name] + `"`
	}
	return text, nil
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
	if err := waitFor(address); err != nil {
		stop()
		return nil, err
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

// waitFor waits until a server accepts connections.
func waitFor(address string) (err error) {
	for end := time.Now().Add(setupTimeout); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		conn, failed := net.Dial("tcp", address)
		if failed == nil {
			return conn.Close()
		}
		err = failed
	}
	return fmt.Errorf("the server at %s did not start: %w", address, err)
}

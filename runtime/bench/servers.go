package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
)

// server names a server that contenders use.
type server string

const (
	postgres server = "Postgres"
	mariadb  server = "MariaDB"
	mysqlDB  server = "MySQL"
	redisDB  server = "Redis"
	// redisDurable is started by the benchmark: it writes every change to the disk before it answers.
	redisDurable server = "Redis, appendfsync always"
)

// servers holds the data source name of each server.
type servers map[server]string

func serversFromEnv() servers {
	return servers{
		postgres: cmp.Or(os.Getenv("RATELIMITGEN_POSTGRES"), "postgres://postgres@127.0.0.1:5432/test?sslmode=disable"),
		mariadb:  cmp.Or(os.Getenv("RATELIMITGEN_MARIADB"), "root@tcp(127.0.0.1:3306)/test"),
		mysqlDB:  cmp.Or(os.Getenv("RATELIMITGEN_MYSQL"), "root@tcp(127.0.0.1:3307)/test"),
		redisDB:  cmp.Or(os.Getenv("RATELIMITGEN_REDIS"), "redis://127.0.0.1:6379/0"),
	}
}

func (s servers) dsn(name server) (string, error) {
	if s[name] == "" {
		return "", fmt.Errorf("%s has no data source name", name)
	}
	return s[name], nil
}

// address returns the host and port of a server.
func (s servers) address(name server) (string, error) {
	dsn, err := s.dsn(name)
	if err != nil {
		return "", err
	}
	switch name {
	case mariadb, mysqlDB:
		c, err := mysql.ParseDSN(dsn)
		if err != nil {
			return "", err
		}
		return c.Addr, nil
	case redisDB, redisDurable:
		o, err := redis.ParseURL(dsn)
		if err != nil {
			return "", err
		}
		return o.Addr, nil
	}
	u, err := url.Parse(dsn)
	if err != nil {
		// The error of url.Parse would quote the password.
		return "", errors.New("the data source name of Postgres is not a URL")
	}
	return fmt.Sprintf("%s:%s", u.Hostname(), cmp.Or(u.Port(), "5432")), nil
}

// through returns the servers with one of them moved to another address, that of a proxy.
func (s servers) through(name server, address string) (servers, error) {
	// A copy, because the other contenders connect without the proxy.
	moved := servers{}
	for n, dsn := range s {
		moved[n] = dsn
	}
	switch name {
	case mariadb, mysqlDB:
		c, err := mysql.ParseDSN(s[name])
		if err != nil {
			return nil, err
		}
		c.Addr = address
		moved[name] = c.FormatDSN()
	default:
		u, err := url.Parse(s[name])
		if err != nil {
			return nil, fmt.Errorf("the data source name of %s is not a URL", name)
		}
		u.Host = address
		moved[name] = u.String()
	}
	return moved, nil
}

// settings are the versions of the servers, and their settings for durability. Figures mean nothing without them.
type settings map[server]string

// settingsOf reads the settings of each server that answers.
func settingsOf(ctx context.Context, s *site) settings {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	found := settings{}
	for name, query := range map[server]string{
		postgres: `SELECT 'Postgres ' || current_setting('server_version') || ', synchronous_commit '
			|| current_setting('synchronous_commit') || ', fsync ' || current_setting('fsync')`,
		mariadb: mysqlSettings,
		mysqlDB: mysqlSettings,
	} {
		if text, err := s.selectText(ctx, name, query); err == nil {
			// MariaDB and MySQL share the query.
			found[name] = strings.Replace(text, "server ", string(name)+" ", 1)
		}
	}
	for _, name := range []server{redisDB, redisDurable} {
		if text, err := s.redisSettings(ctx, name); err == nil {
			found[name] = text
		}
	}
	return found
}

const mysqlSettings = `SELECT CONCAT('server ', version(), ', innodb_flush_log_at_trx_commit ',
	@@innodb_flush_log_at_trx_commit, ', log_bin ', @@log_bin, ', sync_binlog ', @@sync_binlog)`

// selectText returns the text that a query selects.
func (s *site) selectText(ctx context.Context, of server, query string) (text string, err error) {
	dsn, err := s.servers.dsn(of)
	if err != nil {
		return "", err
	}
	db, err := sql.Open(driverOf(of), dsn)
	if err != nil {
		return "", err
	}
	defer db.Close()
	err = db.QueryRowContext(ctx, query).Scan(&text)
	return text, err
}

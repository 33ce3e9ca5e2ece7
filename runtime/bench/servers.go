package main

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"net"
	"net/url"
	"os"
	"runtime"
	"strings"

	"github.com/go-sql-driver/mysql"
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

// hostOf returns the host of a server.
func (s servers) hostOf(name server) (string, error) {
	if name == mariadb || name == mysqlDB {
		c, err := mysql.ParseDSN(s[name])
		if err != nil {
			return "", err
		}
		host, _, err := net.SplitHostPort(c.Addr)
		return host, err
	}
	u, err := url.Parse(s[name])
	if err != nil || u.Host == "" {
		// The error of url.Parse would quote the password.
		return "", fmt.Errorf("the data source name of %s is not a URL with a host", name)
	}
	return u.Hostname(), nil
}

// describe returns the machine, and the versions of the servers that answer with their settings for durability: figures mean
// nothing without them.
func (s *site) describe(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	lines := []string{fmt.Sprintf("%s on %s/%s, %s.\n", runtime.Version(), runtime.GOOS, runtime.GOARCH,
		plural(runtime.NumCPU(), "CPU"))}
	for _, name := range []server{mariadb, mysqlDB, postgres, redisDB, redisDurable} {
		if text, err := s.settings(ctx, name); err == nil {
			lines = append(lines, text+".\n")
		}
	}
	return strings.Join(lines, "")
}

// settings returns the version of a server, and its settings for durability.
func (s *site) settings(ctx context.Context, of server) (text string, err error) {
	query := `SELECT CONCAT(version(), ', innodb_flush_log_at_trx_commit ', @@innodb_flush_log_at_trx_commit, ', log_bin ', @@log_bin,
		', sync_binlog ', @@sync_binlog)`
	switch of {
	case redisDB, redisDurable:
		return s.redisSettings(ctx, of)
	case postgres:
		query = `SELECT current_setting('server_version') || ', synchronous_commit ' || current_setting('synchronous_commit') ||
			', fsync ' || current_setting('fsync')`
	}
	db, err := s.openDB(of)
	if err != nil {
		return "", err
	}
	defer db.Close()
	err = db.QueryRowContext(ctx, query).Scan(&text)
	return string(of) + " " + text, err
}

// openDB opens the database of a server.
func (s *site) openDB(of server) (*sql.DB, error) {
	driver := "mysql"
	if of == postgres {
		driver = "pgx"
	}
	return sql.Open(driver, s.servers[of])
}

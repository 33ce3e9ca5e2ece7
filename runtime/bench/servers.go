package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
)

// server is one of the servers that contenders need. The empty server is none.
type server string

const (
	postgres server = "Postgres"
	mariadb  server = "MariaDB"
	mysqlDB  server = "MySQL"
	redisDB  server = "Redis"
)

// servers are the data source names of the servers.
type servers map[server]string

func serversFromEnv() servers {
	return servers{
		postgres: cmp.Or(os.Getenv("RATELIMITGEN_POSTGRES"), "postgres://postgres@127.0.0.1:5432/test?sslmode=disable"),
		mariadb:  cmp.Or(os.Getenv("RATELIMITGEN_MARIADB"), "root@tcp(127.0.0.1:3306)/test"),
		mysqlDB:  cmp.Or(os.Getenv("RATELIMITGEN_MYSQL"), "root@tcp(127.0.0.1:3307)/test"),
		redisDB:  cmp.Or(os.Getenv("RATELIMITGEN_REDIS"), "redis://127.0.0.1:6379/0"),
	}
}

// dsn returns the data source name of a server.
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
	case redisDB:
		o, err := redis.ParseURL(dsn)
		if err != nil {
			return "", err
		}
		return o.Addr, nil
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return "", errors.New("the data source name of Postgres is not a URL")
	}
	return fmt.Sprintf("%s:%s", u.Hostname(), cmp.Or(u.Port(), "5432")), nil
}

// through returns the servers with one of them at another address.
func (s servers) through(name server, address string) (servers, error) {
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

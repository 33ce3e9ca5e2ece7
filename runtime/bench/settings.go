package main

import (
	"context"
	"database/sql"
	"strings"
)

// settings are what a server is and what it keeps through a crash, in its own words, by name: figures mean
// nothing without them.
type settings map[server]string

// settingsOf asks each server for its settings. One that does not answer has none.
func settingsOf(ctx context.Context, s *site) settings {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found := settings{}
	for name, query := range map[server]string{
		postgres: `SELECT 'Postgres ' || current_setting('server_version') || ', synchronous_commit '
			|| current_setting('synchronous_commit') || ', fsync ' || current_setting('fsync')`,
		mariadb: mysqlSettings,
		mysqlDB: mysqlSettings,
	} {
		if text, err := s.askServer(ctx, name, query); err == nil {
			found[name] = strings.Replace(text, "server ", string(name)+" ", 1)
		}
	}
	if text, err := s.askRedis(ctx); err == nil {
		found[redisDB] = text
	}
	return found
}

const mysqlSettings = `SELECT CONCAT('server ', version(), ', innodb_flush_log_at_trx_commit ',
	@@innodb_flush_log_at_trx_commit, ', log_bin ', @@log_bin, ', sync_binlog ', @@sync_binlog)`

// askServer returns the text that a query selects.
func (s *site) askServer(ctx context.Context, of server, query string) (text string, err error) {
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

// askRedis returns the settings of Redis.
func (s *site) askRedis(ctx context.Context) (string, error) {
	client, err := s.openRedis()
	if err != nil {
		return "", err
	}
	defer closeIt(client)
	info, err := client.InfoMap(ctx, "server").Result()
	if err != nil {
		return "", err
	}
	text := "Redis " + info["Server"]["redis_version"]
	for _, name := range []string{"save", "appendonly"} {
		value, err := client.ConfigGet(ctx, name).Result()
		if err != nil {
			return "", err
		}
		text += ", " + name + ` "` + value[name] + `"`
	}
	return text, nil
}

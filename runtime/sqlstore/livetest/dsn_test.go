package livetest

import (
	"net/url"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// with returns the server with a parameter of its connections.
func (s server) with(parameter string) server {
	joint := "?"
	if strings.Contains(s.dsn, "?") {
		joint = "&"
	}
	s.dsn += joint + parameter
	return s
}

// as returns the server as another user reaches it.
func (s server) as(t *testing.T, user, password string) server {
	t.Helper()
	if s.driver == "mysql" {
		c, err := mysql.ParseDSN(s.dsn)
		require.NoError(t, err)
		c.User, c.Passwd = user, password
		s.dsn = c.FormatDSN()
		return s
	}
	u, err := url.Parse(s.dsn)
	require.NoError(t, err)
	u.User = url.UserPassword(user, password)
	s.dsn = u.String()
	return s
}

// database returns the server with another database.
func (s server) database(t *testing.T, name string) server {
	t.Helper()
	if s.driver == "mysql" {
		c, err := mysql.ParseDSN(s.dsn)
		require.NoError(t, err)
		c.DBName = name
		s.dsn = c.FormatDSN()
		return s
	}
	u, err := url.Parse(s.dsn)
	require.NoError(t, err)
	u.Path = "/" + name
	s.dsn = u.String()
	return s
}

// TestMalformedNameHidesPassword has drivers that cannot parse a data source name, and quote it.
func TestMalformedNameHidesPassword(t *testing.T) {
	for _, dsn := range []string{
		"postgres://user:hunter2 x@127.0.0.1/test", "postgres://user:hunter2%zz@127.0.0.1/test", "postgres://user:hunter2/x@127.0.0.1/test",
		"postgres://user:hunter2@127.0.0.1:54x/test", "user=x password=a hunter2 sslmode=disable", "user=x password='hunter2",
		"password=a port=hunter2", "hunter2",
	} {
		for _, s := range servers[:2] {
			s.dsn = dsn
			store := s.visit(t, "")
			for _, err := range []error{store.Ready(t.Context()), store.Migrate(t.Context()), take(t.Context(), store), sweep(t.Context(), store)} {
				assert.ErrorContains(t, err, "the data source name cannot be parsed")
				assert.NotContains(t, err.Error(), "hunter2")
			}
		}
	}
}

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServersAreMovedToAnotherAddress(t *testing.T) {
	s := servers{
		postgres: "postgres://user:secret@db/app?sslmode=disable",
		mariadb:  "user:secret@tcp(db:3307)/app?parseTime=true",
		redisDB:  "redis://:secret@db:6380/5",
	}
	for _, c := range []struct {
		of      server
		address string
		moved   string
	}{
		{postgres, "db:5432", "postgres://user:secret@127.0.0.1:1/app?sslmode=disable"},
		{mariadb, "db:3307", "user:secret@tcp(127.0.0.1:1)/app?parseTime=true"},
		{redisDB, "db:6380", "redis://:secret@127.0.0.1:1/5"},
	} {
		address, err := s.address(c.of)
		require.NoError(t, err)
		require.Equal(t, c.address, address)
		moved, err := s.through(c.of, "127.0.0.1:1")
		require.NoError(t, err)
		require.Equal(t, c.moved, moved[c.of])
		require.NotEqual(t, s[c.of], moved[c.of], "the servers themselves are as they were")
	}
}

func TestAServerThatIsNotNamedIsNotThere(t *testing.T) {
	_, err := servers{}.address(mysqlDB)
	require.EqualError(t, err, "MySQL has no data source name")
}

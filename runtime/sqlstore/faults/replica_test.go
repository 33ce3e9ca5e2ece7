package faults

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
	"github.com/stretchr/testify/require"
)

// A replica is read-only. A server that requires passwords gets a wrong one.
func TestPostgresReplicaIsExplained(t *testing.T) {
	t.Parallel()
	postgres := own{script: "./postgres.sh"}
	defer postgres.remove()
	needOwn(t, postgres.start())
	require.NoError(t, postgres.run("standby", strconv.Itoa(postgres.port(0))))
	for _, driver := range []string{"pgx", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			at := func(i int) live.Server {
				dsn := fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", postgres.port(i))
				return live.Server{Name: "own postgres", Driver: driver, DSN: dsn, Dialect: dialect.Postgres}
			}
			primary, replica := at(0), at(1)
			db, table := primary.Open(t), live.NewTable()
			primary.StoreIn(t, db, table, nil)
			looking := replica.Visit(t, table)
			require.Eventually(t, func() bool {
				return !strings.Contains(fmt.Sprint(looking.Ready(t.Context())), "there is no table")
			}, 10*time.Second, 10*time.Millisecond, "the replica has no table")
			replica.RefusesToStart(t, table, "connect to the primary server")

			live.Execute(t, db, "CREATE ROLE guarded LOGIN PASSWORD 'secret'")
			defer db.Exec("DROP ROLE guarded")
			primary.DSN = strings.Replace(primary.DSN, "postgres@", "guarded:wrong@", 1)
			primary.RefusesToStart(t, table, "the server refuses the database user: check user and password")
			primary.DSN = strings.Replace(primary.DSN, "wrong", "secret", 1)
			live.FailsWith(t, primary.Visit(t, table).Ready(t.Context()), "lacks a privilege")
		})
	}
}

// A node with read_only set behaves like a replica. Then a user gives a wrong password.
func TestMySQLReplicaIsExplained(t *testing.T) {
	node := galeraServers(t)[0]
	db, table := node.Open(t), live.NewTable()
	node.StoreIn(t, db, table, nil)
	live.Execute(t, db, "CREATE USER guarded IDENTIFIED BY 'secret'")
	defer db.Exec("DROP USER guarded")
	live.Execute(t, db, "GRANT SELECT, INSERT, UPDATE, DELETE ON "+table+" TO guarded")
	user := node
	user.DSN = strings.Replace(node.DSN, "root@", "guarded:secret@", 1)
	require.NoError(t, user.Visit(t, table).Ready(t.Context()))
	live.Execute(t, db, "SET GLOBAL read_only = 1")
	defer live.Execute(t, db, "SET GLOBAL read_only = 0")
	user.RefusesToStart(t, table, "is read-only: taking tokens writes to the table, so connect to the primary server")
	user.DSN = strings.Replace(user.DSN, "secret", "wrong", 1)
	user.RefusesToStart(t, table, "the server refuses the database user: check user and password")
}

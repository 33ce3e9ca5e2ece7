package livetest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

// TestPostgresReplica asks a replica, and one that is asked for a password gives a wrong one.
func TestPostgresReplica(t *testing.T) {
	postgres := own{script: "./postgres.sh", offset: 17}
	defer postgres.remove()
	needOwn(t, postgres.start())
	require.NoError(t, postgres.run("standby", strconv.Itoa(postgres.port(0))))
	for _, driver := range []string{"pgx", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			at := func(i int) server {
				dsn := fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", postgres.port(i))
				return server{"own postgres", driver, dsn, sqlstore.Postgres}
			}
			primary, replica := at(0), at(1)
			db, table := primary.open(t), newTable()
			primary.storeIn(t, db, table, nil)
			looking := replica.visit(t, table)
			require.Eventually(t, func() bool {
				return !strings.Contains(fmt.Sprint(looking.Ready(t.Context())), "there is no table")
			}, 10*time.Second, 10*time.Millisecond, "the replica has no table")
			replica.refuses(t, table, "connect to the primary server")

			_, err := db.Exec("CREATE ROLE guarded LOGIN PASSWORD 'secret'")
			require.NoError(t, err)
			defer db.Exec("DROP ROLE guarded")
			primary.as(t, "guarded", "wrong").refuses(t, table, "the server refuses the database user: check user and password")
			said(t, primary.as(t, "guarded", "secret").visit(t, table).Ready(t.Context()), "lacks a privilege")
		})
	}
}

// TestMySQLReplica asks a node that is read-only, as replicas are, and gives a wrong password.
func TestMySQLReplica(t *testing.T) {
	node := galeraServers(t)[0]
	db, table := node.open(t), newTable()
	node.storeIn(t, db, table, nil)
	user := node.user(t, db, "SELECT, INSERT, UPDATE, DELETE ON "+table)
	require.NoError(t, user.visit(t, table).Ready(t.Context()))
	set := func(on int) {
		_, err := db.Exec(fmt.Sprintf("SET GLOBAL read_only = %d", on))
		require.NoError(t, err)
	}
	set(1)
	defer set(0)
	user.refuses(t, table, readOnly)
	c, err := mysql.ParseDSN(user.dsn)
	require.NoError(t, err)
	node.as(t, c.User, "wrong").refuses(t, table, "the server refuses the database user: check user and password")
}

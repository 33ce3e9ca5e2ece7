package conformance

import (
	"database/sql"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

// TestStore runs the conformance suite of all stores.
func TestStore(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		suite(t, s, s.Open(t), asItIs)
	})
}

// Statements that decide in SQL must agree with the Go step bit for bit.
func TestStatementsAgreeWithTheGoStep(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		db, table, clock := s.Open(t), live.NewTable(), storetest.NewClock()
		store := s.StoreIn(t, db, table, clock.Now)
		subject := agree.Subject{Store: store, DB: db, Dialect: s.Dialect, Table: table, Clock: clock}
		batches := 40
		if *long {
			batches = 400
		}
		agree.Test(t, subject, batches)
		agree.Singly(t, subject, batches)
	})
}

// Programs that share a table, and versions that follow one another.
func TestRegistered(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		table := live.NewTable()
		s.StoreIn(t, s.Open(t), table, nil) // which drops it
		subject := agree.Subject{DB: s.Open(t), Dialect: s.Dialect, Table: table, Clock: storetest.NewClock()}
		agree.Registered(t, subject, func(t *testing.T, o sqlstore.Options) *sqlstore.Store {
			store := live.Must(agree.NewStore(s.Open(t), s.Dialect, o))(t)
			t.Cleanup(func() { require.NoError(t, store.Close()) })
			return store
		})
	})
}

// isolated returns the server with a default isolation level of its connections.
func isolated(s live.Server, level string) live.Server {
	if s.Protocol() == "mysql" {
		level = "'" + strings.ToUpper(strings.ReplaceAll(level, " ", "-")) + "'"
	}
	return s.With(word(s, "isolation") + "=" + url.PathEscape(level))
}

// The conformance suite passes at every isolation level that connections may have by default.
func TestEveryIsolationLevelPassesTheSuite(t *testing.T) {
	onEachServer(t, func(t *testing.T, s live.Server) {
		levels := []string{"read uncommitted", "serializable"}
		if *long {
			levels = append(levels, "read committed", "repeatable read")
		}
		for _, level := range levels {
			live.AtOnce(t, level, func(t *testing.T) { suite(t, s, isolated(s, level).Open(t), asItIs) })
		}
	})
}

// modes are parameters of connections that must not change a decision.
var modes = map[string][]string{
	"pgx": {
		"default_query_exec_mode=simple_protocol", "default_query_exec_mode=exec", "default_query_exec_mode=describe_exec",
	},
	"postgres": {"binary_parameters=yes"},
	"mysql": {
		"sql_mode=ORACLE", "interpolateParams=true", "clientFoundRows=true", "sql_mode=SIMULTANEOUS_ASSIGNMENT",
		"sql_mode='ANSI_QUOTES,HIGH_NOT_PRECEDENCE,IGNORE_SPACE,NO_BACKSLASH_ESCAPES,NO_UNSIGNED_SUBTRACTION," +
			"PAD_CHAR_TO_FULL_LENGTH,PIPES_AS_CONCAT,REAL_AS_FLOAT'&interpolateParams=true",
	},
}

// With each of the modes, the store agrees with the Go step, also in transactions.
func TestConnectionModesAgreeWithTheGoStep(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		for _, mode := range modes[s.Driver] {
			t.Run(mode, func(t *testing.T) {
				s := s.With(mode)
				db := live.Must(sql.Open(s.Driver, s.DSN))(t)
				t.Cleanup(func() { db.Close() })
				if err := db.Ping(); err != nil {
					t.Skip("a mode of other servers: ", err)
				}
				table, clock := live.NewTable(), storetest.NewClock()
				store := s.StoreIn(t, db, table, clock.Now)
				// Before Ready, because pgx reuses prepared statements that have the same text.
				takesInTx(t, db, store)
				require.NoError(t, store.Ready(t.Context()))
				subject := agree.Subject{Store: store, DB: db, Dialect: s.Dialect, Table: table, Clock: clock}
				agree.Test(t, subject, 10)
				agree.Singly(t, subject, 10)
			})
		}
	})
}

// takesInTx takes from one row and from two, in transactions of the caller and of the store.
func takesInTx(t *testing.T, db *sql.DB, store *sqlstore.Store) {
	t.Helper()
	for _, durability := range []runtime.Durability{runtime.DurabilityDefault, runtime.DurabilityRelaxed, runtime.DurabilityFull} {
		p, q := live.Once(fmt.Sprint("p", durability), 3), live.Once(fmt.Sprint("q", durability), 3)
		p.Durability, q.Durability = durability, durability
		one := []runtime.Call{{Requests: []runtime.Request{{Policy: p, Key: `"\'`, Count: 1}}}}
		both := []runtime.Call{{Requests: append(one[0].Requests, runtime.Request{Policy: q, Count: 1})}}
		for _, calls := range [][]runtime.Call{one, both} {
			require.NoError(t, sqlstore.RunInTx(t.Context(), db, func(tx *sql.Tx) error {
				answers, err := store.WithTx(tx).Do(t.Context(), calls)
				assert.True(t, err != nil || answers[0].Allowed())
				return err
			}))
		}
		answers := live.Must(store.Do(t.Context(), both))(t)
		assert.EqualValues(t, 0, answers[0].Decisions[0].Remaining)
		assert.EqualValues(t, 1, answers[0].Decisions[1].Remaining)
	}
}

// A batch of several rows of a limit is one statement, or on MySQL, which cannot return the rows, one that takes and one
// that selects the result.
func TestRoundTripsOfSeveralRows(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		wanted := int64(1)
		switch {
		case s.Driver == "postgres":
			t.Skip("lib/pq, which may send a statement twice, needs a transaction")
		case s.Dialect.Taken != "":
			wanted = 2
		}
		through, p := through(t, s, 0)
		table := live.NewTable()
		s.StoreIn(t, s.Open(t), table, nil)
		store := s.StoreWith(t, through.Open(t), sqlstore.Options{Table: table})
		takeEach(t, store, 2)
		for _, rows := range []int{2, 3, 100} {
			for _, state := range []string{"new", "stored"} {
				before := p.requests.Load()
				takeEach(t, store, rows)
				assert.Equal(t, wanted, p.requests.Load()-before, "%d rows, %s", rows, state)
			}
		}
	})
}

// takeEach takes a token from each of the rows of a limit in one call of the store.
func takeEach(t *testing.T, store *sqlstore.Store, rows int) {
	t.Helper()
	answers := live.Must(store.Do(t.Context(), oneEach(rows)))(t)
	for _, a := range answers {
		require.True(t, a.Allowed())
	}
}

// oneEach are takes of one token from rows of a limit, whose keys depend on their number.
func oneEach(rows int) []runtime.Call {
	p := live.Once("limit", 1000)
	calls := make([]runtime.Call, rows)
	for i := range calls {
		calls[i].Requests = []runtime.Request{{Policy: p, Key: fmt.Sprint(rows, "/", i), Count: 1}}
	}
	return calls
}

// The second statement fails after the first one has taken, or its result is another statement's. The calls fail, and are
// not decided a second time.
func TestLostResultOfSeveralRowsIsNotTakenAgain(t *testing.T) {
	s := named(t, "mysql")[0]
	for taken, says := range map[string]string{
		"SELECT x FROM rl_missing":                                  "rl_missing",
		"SELECT NULL":                                               "the server has lost the result",
		"SELECT REPEAT('inserted', 6)":                              "the server has lost the result",
		"SELECT CONCAT(REPEAT('inserted', 5), 'an', 'other')":       "the server has lost the result",
		"SELECT CONCAT(REPEAT('inserted', 6), x'000000000000F0BF')": "the server has lost the result",
	} {
		t.Run(taken, func(t *testing.T) {
			db, table := s.Open(t), live.NewTable()
			s.StoreIn(t, db, table, nil)
			dialect := s.Dialect
			dialect.Taken = taken
			store := live.Must(agree.NewStore(db, dialect, sqlstore.Options{Table: table}))(t)
			defer store.Close()
			answers, err := store.Do(t.Context(), oneEach(7))
			require.ErrorContains(t, err, says)
			for _, a := range answers {
				assert.False(t, a.Answered())
			}
			var rows, tokens int
			require.NoError(t, db.QueryRow("SELECT COUNT(*), -SUM(value) FROM "+table).Scan(&rows, &tokens))
			assert.Equal(t, []int{7, 7}, []int{rows, tokens})
			if says == "the server has lost the result" {
				_, err = store.Do(t.Context(), oneEach(7))
				require.NoError(t, err, "later calls do without it")
			}
		})
	}
}

// Statements for many rows send doubles as texts in JSON. The server must read them bit for bit.
func TestDoublesInJSONAreExact(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		if s.Protocol() != "mysql" {
			return
		}
		db := s.Open(t)
		random := rand.New(rand.NewPCG(1, 2))
		for range 1000 {
			want := (random.Float64()*3 - 1) * math.Pow(10, float64(random.IntN(16)))
			var text, number float64
			query := "SELECT v FROM JSON_TABLE(?, '$[*]' COLUMNS (v DOUBLE PATH '$[0]')) j"
			require.NoError(t, db.QueryRow(query, fmt.Sprintf(`[["%v"]]`, want)).Scan(&text))
			require.NoError(t, db.QueryRow(query, fmt.Sprintf(`[[%v]]`, want)).Scan(&number))
			require.Equal(t, want, text)
			if number != want {
				t.Logf("as a number, %v is %v", want, number)
			}
		}
	})
}

// Sessions that round doubles, convert texts, or would not commit single statements, are refused.
func TestSessionsThatChangeDataAreRefused(t *testing.T) {
	digits := [2]string{"extra_float_digits=0", `extra_float_digits is "0" instead of "3"`}
	ofMySQL := [][2]string{
		{"character_set_connection=latin1", `character_set_connection is "latin1" instead of "utf8mb4"`},
		{"character_set_connection=utf16", `character_set_connection is "utf16" instead of "utf8mb4"`},
		{"autocommit=0", `autocommit is "`},
		{"completion_type=1", `completion_type is "CHAIN" instead of "NO_CHAIN"`},
		{"charset=latin1", `character_set_client is "latin1" instead of "utf8mb4"`},
	}
	refused := map[string][][2]string{
		"postgres-pgx": {digits}, "postgres-pq": {digits}, "mysql": ofMySQL,
		"mariadb": append(ofMySQL, [2]string{"sql_mode=EMPTY_STRING_IS_NULL", `an empty text is "NULL" instead of "a text"`}),
	}
	onEach(t, func(t *testing.T, s live.Server) {
		table := live.NewTable()
		s.StoreIn(t, s.Open(t), table, nil)
		for _, says := range refused[s.Name] {
			store := s.With(says[0]).Visit(t, table)
			assert.ErrorContains(t, store.Ready(t.Context()), "change the settings of the connections, in the data source name or in the server: "+says[1])
			refuses(t, store, says[1])
		}
	})
}

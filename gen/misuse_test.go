package gen

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// misuses are calls of golden packages that must not compile, and a part of the compiler's message.
var misuses = map[string][]struct{ call, message string }{
	"plans": {
		{`limits.APICalls(7).Allow(ctx)`, "not enough arguments in call to limits.APICalls"},
		{`limits.APICalls(7, "free").Allow(ctx)`, `cannot use "free" (untyped string constant) as plans.Plan value`},
		{`limits.APICalls(7, name).Allow(ctx)`, "cannot use name (variable of type string) as plans.Plan value"},
		{`limits.APICalls(7, count).Allow(ctx)`, "cannot use count (variable of type int) as plans.Plan value"},
		{`limits.APICalls(7, plans.PlanGold).Allow(ctx)`, "undefined: plans.PlanGold"},
		{`limits.APICalls(plans.PlanFree, 7).Allow(ctx)`, "cannot use plans.PlanFree (constant 1 of int type plans.Plan) as int64 value"},
		{`limits.SignUp("ann", plans.PlanFree).Allow(ctx)`, "too many arguments in call to limits.SignUp"},
		{`limits.Exports(plans.PlanFree).Allow(ctx)`, "limits.Exports(plans.PlanFree).Allow undefined"},
	},
	// Slots are acquired, and tokens are taken.
	"kinds": {
		{`limits.Running(7).Allow(ctx)`, "limits.Running(7).Allow undefined"},
		{`limits.Running(7).Reserve(ctx)`, "limits.Running(7).Reserve undefined"},
		{`limits.Running(7).Wait(ctx)`, "limits.Running(7).Wait undefined"},
		{`limits.Running(7).Charge(ctx, 1)`, "limits.Running(7).Charge undefined"},
		{`limits.Plain("ann").Acquire(ctx)`, `limits.Plain("ann").Acquire undefined`},
		{`limits.Plain("ann").WaitAcquire(ctx)`, `limits.Plain("ann").WaitAcquire undefined`},
		{`slot, _ := limits.Running(7).Acquire(ctx); slot.Settle(ctx, 1)`, "slot.Settle undefined"},
		// A pool, a connection, and what may be either, are no transaction.
		{`limits.WithTx(db)`, `*sql.DB does not implement "github.com/ratelimitgen/ratelimitgen/runtime".Tx (missing method Commit)`},
		{`limits.WithTx(conn)`, `*sql.Conn does not implement "github.com/ratelimitgen/ratelimitgen/runtime".Tx (missing method Commit)`},
		{`limits.WithTx(queries)`, `DBTX does not implement "github.com/ratelimitgen/ratelimitgen/runtime".Tx (missing method Commit)`},
		{`limits.WithConn(db)`, "cannot use db (variable of type *sql.DB) as *sql.Conn value"},
	},
	// A group with slots has no method whose result lacks them.
	"groups": {
		{`limits.Export("red", "large").Require(ctx, 1)`, `limits.Export("red", "large").Require undefined`},
		{`limits.Export("red", "large").Wait(ctx, 1)`, `limits.Export("red", "large").Wait undefined`},
	},
	"numbers": {
		// Numbers are required, and of the type of their limit.
		{`limits.APICalls(7).Allow(ctx)`, "not enough arguments in call to limits.APICalls"},
		{`limits.APICalls(7, 500).Allow(ctx)`, "cannot use 500 (untyped int constant) as numbers.APICallsNumbers value"},
		{`limits.APICalls(7, numbers.SeatsNumbers{Rate: 500}).Allow(ctx)`, "cannot use numbers.SeatsNumbers{…} (value of struct type numbers.SeatsNumbers) as numbers.APICallsNumbers value"},
		{`limits.APICalls(7, numbers.APICallsNumbers{Rate: 500, MaxReserved: 5}).Allow(ctx)`, "unknown field MaxReserved in struct literal of type numbers.APICallsNumbers"},
		{`limits.APICalls(7, numbers.APICallsNumbers{500}).Allow(ctx)`, "too few values in struct literal of type numbers.APICallsNumbers"},
		{`limits.Seats(7, numbers.SeatsNumbers{Rate: 5, Capacity: 5}).Allow(ctx)`, "unknown field Capacity in struct literal of type numbers.SeatsNumbers"},
		{`limits.Exports(numbers.PlanFree).Allow(ctx)`, "not enough arguments in call to limits.Exports"},
		{`limits.Call(7, numbers.APICallsNumbers{}, numbers.PlanFree).Allow(ctx, 1)`, "not enough arguments in call to limits.Call"},
		{`limits.Plain(7, numbers.APICallsNumbers{}).Allow(ctx)`, "too many arguments in call to limits.Plain"},
		// A limit without overrides in the file has no methods for them, and a plan is a typed one.
		{`limits.OrdinaryOverrides(7)`, "limits.OrdinaryOverrides undefined"},
		{`limits.SendMessage(7).Block(ctx, numbers.Block{})`, "limits.SendMessage(7).Block undefined"},
		{`limits.OrdinaryOverridesForAll()`, "limits.OrdinaryOverridesForAll undefined"},
		{`limits.SignUpOverridesForAll()`, "limits.SignUpOverridesForAll undefined"},
		{`limits.Login("ann").Reserve(ctx)`, `limits.Login("ann").Reserve undefined`},
		{`limits.Reports().Allow(ctx)`, "limits.Reports().Allow undefined"},
		{`limits.TeamCallsOverrides(7).Set(ctx, numbers.Override{Plan: "pro"})`, `cannot use "pro"`},
		{`limits.SendMessageOverrides(7).Set(ctx, numbers.Override{Period: 1})`, "unknown field Period"},
	},
}

func TestMisuseDoesNotCompile(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the compiler")
	}
	const dbtx = "\n// DBTX is what code generated from queries takes.\ntype DBTX interface {\n" +
		"\tExecContext(context.Context, string, ...any) (sql.Result, error)\n\tPrepareContext(context.Context, string) (*sql.Stmt, error)\n" +
		"\tQueryContext(context.Context, string, ...any) (*sql.Rows, error)\n\tQueryRowContext(context.Context, string, ...any) *sql.Row\n}\n"
	program := func(of, call string) string {
		plan := ""
		if of == "plans" || of == "numbers" {
			plan = ", plan OF.Plan"
		}
		return strings.ReplaceAll("package misuse\n\nimport (\n\t\"context\"\n\t\"database/sql\"\n\n\t\"example.com/app/OF\"\n)\n\n"+
			"func F(ctx context.Context, limits *OF.Limits, name string, count int, db *sql.DB, conn *sql.Conn, tx *sql.Tx, queries DBTX"+plan+") {\n\t", "OF", of) + call + "\n}\n" + dbtx
	}
	files := map[string]string{}
	for of, calls := range misuses {
		files[of+"/limits.gen.go"] = string(golden(t, of))
		for i, misuse := range calls {
			files[misuseFile(of, i)] = program(of, misuse.call)
		}
	}
	dir := module(t, files)
	out, err := goTool(t, dir, "build", "./...")
	require.Error(t, err)
	for of, calls := range misuses {
		for i, misuse := range calls {
			_, message, found := strings.Cut(out, misuseFile(of, i)+":")
			message, _, _ = strings.Cut(message, "\n")
			if assert.True(t, found, "%s compiles", misuse.call) {
				assert.Contains(t, message, misuse.message, misuse.call)
			}
		}
	}

	// The rest of the program is not what fails.
	right := misuseFile("plans", 0)
	require.NoError(t, os.WriteFile(filepath.Join(dir, right), []byte(program("plans", "limits.WithTx(tx).APICalls(7, plan).Allow(ctx)\n\tlimits.WithConn(conn)")), 0o644))
	out, err = goTool(t, dir, "build", "./"+filepath.Dir(right))
	assert.NoError(t, err, out)
}

func misuseFile(of string, i int) string { return fmt.Sprintf("misuse-%s-%d/misuse.go", of, i) }

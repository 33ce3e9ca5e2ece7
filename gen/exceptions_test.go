package gen

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// As many exceptions as a limit can have compile, and a key has its own.
func TestTenThousandExceptionsCompile(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	const n = 10_000
	var text, want strings.Builder
	text.WriteString("version: 1\npackage: main\nplans: [free, pro]\nlimits:\n  calls:\n    key: {org: int64}\n    kind: token bucket\n" +
		"    rate: {free: 10, pro: 60}\n    period: 1m\n    exceptions:\n")
	for i := range n {
		gives, has := fmt.Sprintf("rate: %d, capacity: %d", 100+i, 200+i), fmt.Sprintf("enforce %d %d", 100+i, 200+i)
		switch i % 4 {
		case 0:
			gives, has = "plan: pro", "enforce 60 60"
		case 1:
			gives, has = "mode: block", "block 10 10"
		}
		fmt.Fprintf(&text, "      - {org: %d, %s, reason: contract %d}\n", 7*i, gives, i)
		fmt.Fprintf(&want, "%d %s\n%d enforce 10 10\n", 7*i, has, 7*i+1)
	}
	out, err := goTool(t, module(t, map[string]string{
		"limits.gen.go": string(generated(t, text.String())),
		"main.go": fmt.Sprintf(`package main

import (
	"context"
	"fmt"

	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

func main() {
	limits := New(&memstore.Store{})
	for i := range int64(7 * %d) {
		if i %% 7 > 1 {
			continue
		}
		d, err := limits.Calls(i, PlanFree).Check(context.Background())
		if err != nil {
			panic(err)
		}
		fmt.Println(i, d.Policy.Mode, d.Policy.Rate, d.Policy.Capacity)
	}
}
`, n),
	}), "run", ".")
	require.NoError(t, err, out)
	require.True(t, want.String() == out, "a key has other numbers than its exception gives")
}

package limithttp_test

import (
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limithttp"
)

// The time in which tokens accrue is exact, rounded up, also where the products exceed 64 and the quotients 50 bits.
func TestSecondsAreExact(t *testing.T) {
	const seed = 1
	random := rand.New(rand.NewPCG(seed, seed))
	// Numbers of every magnitude up to most.
	upTo := func(most int64) int64 { return 1 + random.Int64N(most)>>random.IntN(63) }
	capped := 0
	for range 10_000 {
		tokens, p := upTo(runtime.MaxTokens), runtime.Policy{Rate: upTo(runtime.MaxTokens), Period: time.Duration(upTo(int64(runtime.MaxPeriod)))}
		span := new(big.Int).Mul(big.NewInt(int64(p.Period)), big.NewInt(tokens))
		unit := new(big.Int).Mul(big.NewInt(int64(time.Second)), big.NewInt(p.Rate))
		want, rest := new(big.Int).DivMod(span, unit, new(big.Int))
		if rest.Sign() > 0 {
			want.Add(want, big.NewInt(1))
		}
		if most := big.NewInt(999_999_999_999_999); want.Cmp(most) > 0 {
			want, capped = most, capped+1
		}
		require.Equal(t, want.Int64(), limithttp.SecondsFor(tokens, &p), "%d tokens of %d per %v", tokens, p.Rate, p.Period)
	}
	require.NotZero(t, capped)
}

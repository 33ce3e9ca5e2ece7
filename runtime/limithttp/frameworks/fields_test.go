package frameworks

import (
	"context"
	"math/big"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/limithttp"
)

const maxInteger = 999_999_999_999_999

// fieldsOf returns the fields of a response to a request with some decisions.
func fieldsOf(ds []runtime.Decision, o limithttp.Options) http.Header {
	o.AdvertiseShared = true
	all := limiter.Decisions{Allowed: true, Each: ds}
	for _, d := range ds {
		all.Allowed = all.Allowed && d.Allowed
		all.RetryAfter = max(all.RetryAfter, d.RetryAfter)
	}
	route := limithttp.New(nil, o).Group(func(*http.Request) (limithttp.Take, error) {
		return func(context.Context) (limiter.Decisions, error) { return all, nil }, nil
	})
	w := httptest.NewRecorder()
	route.Wrap(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	return w.Header()
}

// item is a parsed item of one of the fields.
type item struct {
	name   string
	params *httpsfv.Params
}

// integer returns a parameter that must be an Integer of RFC 9651 in a range, or -1 if it is missing.
func (i item) integer(t *testing.T, name string, least int64) int64 {
	t.Helper()
	value, ok := i.params.Get(name)
	if !ok {
		return -1
	}
	n, ok := value.(int64)
	require.True(t, ok, "%s is a %T", name, value)
	require.GreaterOrEqual(t, n, least)
	require.LessOrEqual(t, n, int64(maxInteger))
	return n
}

// parse parses a field with a library that is not ours.
func parse(t *testing.T, h http.Header, field string) (items []item) {
	t.Helper()
	list, err := httpsfv.UnmarshalList(h.Values(field))
	require.NoError(t, err, "%s: %q", field, h.Values(field))
	for _, member := range list {
		i, ok := member.(httpsfv.Item)
		require.True(t, ok)
		name, ok := i.Value.(string)
		require.True(t, ok, "%q", h.Values(field))
		items = append(items, item{name, i.Params})
	}
	return items
}

// checkFields parses both fields, and checks what the draft says of their numbers.
func checkFields(t *testing.T, h http.Header, names []string, partitioned bool) {
	t.Helper()
	policies, states := parse(t, h, "RateLimit-Policy"), parse(t, h, "RateLimit")
	require.Len(t, policies, len(names))
	require.Len(t, states, len(names))
	for i, name := range names {
		require.Equal(t, name, policies[i].name)
		require.Equal(t, name, states[i].name)
		q, r := policies[i].integer(t, "q", 0), states[i].integer(t, "r", 0)
		require.GreaterOrEqual(t, q, r)
		require.NotEqual(t, int64(-1), r)
		policies[i].integer(t, "w", 1)
		states[i].integer(t, "t", 1)
		a, inPolicy := policies[i].params.Get("pk")
		b, inState := states[i].params.Get("pk")
		require.Equal(t, partitioned, inPolicy)
		require.Equal(t, partitioned, inState)
		if partitioned {
			require.Len(t, a, 9)
			require.Equal(t, a, b)
		}
	}
}

// randomName returns a name of a policy, of which some have characters that a String cannot hold.
func randomName(d *rand.Rand) string {
	alphabet := []rune(`abc "\;,=%:()*?@~!` + "'`{}|")
	if d.IntN(8) == 0 {
		alphabet = append(alphabet, 'é', '世', '\u00a0', '\U0001F600')
	}
	name := make([]rune, 1+d.IntN(30))
	for i := range name {
		name[i] = alphabet[d.IntN(len(alphabet))]
	}
	return string(name)
}

// randomTokens returns a number of any magnitude up to most.
func randomTokens(d *rand.Rand, most int64) int64 {
	n := d.Int64N(most) >> d.IntN(50)
	return min(most, 1+n)
}

func randomDecision(d *rand.Rand) runtime.Decision {
	for {
		p := &runtime.Policy{
			Name: randomName(d), Kind: runtime.Kinds()[d.IntN(3)], Rate: randomTokens(d, runtime.MaxTokens), Capacity: randomTokens(d, runtime.MaxTokens),
			Period: time.Duration(randomTokens(d, int64(runtime.MaxPeriod))), Mode: runtime.Modes()[d.IntN(4)],
		}
		if d.IntN(2) == 0 {
			p.Period = max(time.Second, p.Period.Truncate(time.Second))
		}
		if !p.Kind.Linear() {
			p.Capacity = p.Rate
		}
		if p.Validate() != nil {
			continue
		}
		result := runtime.Decision{
			Limit: p.Name, Policy: p, Allowed: d.IntN(2) == 0, Remaining: d.Int64N(3) * randomTokens(d, p.Capacity),
			FullAfter: time.Duration(d.Int64()), ResetAfter: time.Duration(d.Int64N(int64(p.Period) + 1)),
		}
		result.Value = float64(result.Remaining) + d.Float64() - float64(d.IntN(2))*float64(randomTokens(d, 4*runtime.MaxTokens))
		if !result.Allowed {
			result.RetryAfter, result.Jitter = time.Duration(1+d.Int64()>>d.IntN(60)), time.Duration(d.Int64()>>d.IntN(60))
		}
		if p.Mode == runtime.ModeBlock {
			result.Allowed, result.RetryAfter = false, runtime.Never
		}
		return result
	}
}

// TestFieldsAreStructured sends the fields of random decisions to a parser of RFC 9651.
func TestFieldsAreStructured(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	d := rand.New(rand.NewPCG(seed, 0))
	items, left := 0, 0
	for range 30_000 {
		var ds []runtime.Decision
		var names []string
		for len(ds) < 1+d.IntN(3) {
			one := randomDecision(d)
			ds = append(ds, one)
			told := one.Policy.Mode == runtime.ModeEnforce || one.Policy.Mode == runtime.ModeBlock
			if told && ascii(one.Limit) && !slices.Contains(names, one.Limit) {
				names = append(names, one.Limit)
			} else {
				left++
			}
		}
		var o limithttp.Options
		if d.IntN(3) == 0 {
			o.PartitionSecret = []byte("secret")
		}
		checkFields(t, fieldsOf(ds, o), names, o.PartitionSecret != nil)
		items += len(names)
	}
	t.Logf("%d items parsed, and %d decisions without one", items, left)
	require.Greater(t, items, 20_000)
}

func ascii(s string) bool {
	return strings.IndexFunc(s, func(c rune) bool { return c < ' ' || c > '~' }) < 0
}

func FuzzFields(f *testing.F) {
	f.Add(`sendMessage`, int64(10), int64(20), int64(60e9), int64(19))
	f.Add(`a "b" \c`, int64(1), int64(runtime.MaxTokens), int64(runtime.MaxPeriod), int64(runtime.MaxTokens))
	f.Add("größe", int64(runtime.MaxTokens), int64(1), int64(1), int64(0))
	f.Fuzz(func(t *testing.T, name string, rate, capacity, period, remaining int64) {
		p := &runtime.Policy{Name: name, Kind: runtime.TokenBucket, Rate: rate, Capacity: capacity, Period: time.Duration(period)}
		if p.Validate() != nil || remaining < 0 {
			t.Skip()
		}
		var names []string
		if ascii(name) {
			names = []string{name}
		}
		d := runtime.Decision{Limit: name, Policy: p, Allowed: true, Remaining: remaining, Value: float64(remaining)}
		h := fieldsOf([]runtime.Decision{d}, limithttp.Options{})
		checkFields(t, h, names, false)
		if len(names) == 0 {
			return
		}
		require.Equal(t, secondsFor(capacity, p), parse(t, h, "RateLimit-Policy")[0].integer(t, "w", 1))
		if left := min(remaining, capacity, maxInteger); left > 0 {
			require.Equal(t, secondsFor(left, p), parse(t, h, "RateLimit")[0].integer(t, "t", 1))
		}
	})
}

// secondsFor is the time in which a token bucket grants some tokens, in whole seconds rounded up.
func secondsFor(tokens int64, p *runtime.Policy) int64 {
	needed := new(big.Int).Mul(big.NewInt(tokens), big.NewInt(int64(p.Period)))
	granted := new(big.Int).Mul(big.NewInt(p.Rate), big.NewInt(int64(time.Second)))
	needed.Add(needed, granted).Sub(needed, big.NewInt(1)).Div(needed, granted)
	if !needed.IsInt64() || needed.Int64() > maxInteger {
		return maxInteger
	}
	return max(1, needed.Int64())
}

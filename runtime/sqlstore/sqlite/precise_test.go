package sqlite_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

// precise never grants more than 50 tokens in any 200 milliseconds.
var precise = &runtime.Policy{Name: "precise", Kind: runtime.SlidingWindow, Rate: 50, Capacity: 50, Period: 200 * time.Millisecond, Precise: true}

// takePrecisely takes from the limit in 16 goroutines for ten periods, and prints the instants and the counts.
func takePrecisely(l *limiter.Limiter) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*precise.Period)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	var failed error
	for g := range 16 {
		all.Go(func() {
			for ctx.Err() == nil {
				n := int64(1 + g%3)
				d, err := l.Limit(precise, runtime.Key{}).AllowN(ctx, n)
				mu.Lock()
				if err != nil && ctx.Err() == nil {
					failed = errors.Join(failed, err)
				}
				if err == nil && d.Allowed {
					fmt.Println(d.TakenAt.UnixNano(), n)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return failed
}

// 64 goroutines in 4 processes get the rate, and in no period more.
func TestProcessesNeverExceedAPreciseRate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	type taken struct{ at, tokens int64 }
	var takes []taken
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			out, err := process("takePrecisely", path).Output()
			assert.NoError(t, err)
			mu.Lock()
			defer mu.Unlock()
			for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
				var one taken
				_, err := fmt.Sscan(lines.Text(), &one.at, &one.tokens)
				assert.NoError(t, err)
				takes = append(takes, one)
			}
		})
	}
	all.Wait()
	slices.SortFunc(takes, func(a, b taken) int { return cmp.Compare(a.at, b.at) })
	sum, most, first := int64(0), int64(0), 0
	for _, one := range takes {
		sum += one.tokens
		for ; takes[first].at+int64(precise.Period) <= one.at; first++ {
			sum -= takes[first].tokens
		}
		most = max(most, sum)
	}
	assert.Equal(t, precise.Rate, most)
	t.Logf("%d takes allowed, at most %d tokens in any period", len(takes), most)
}

// BenchmarkPreciseTake is the cost of a take from a log that goes round, by one caller and by 64 on one key, and that of an
// approximate sliding window.
func BenchmarkPreciseTake(b *testing.B) {
	for _, rate := range []int64{0, 5, 100, 1000} {
		p := &runtime.Policy{Name: "limit", Kind: runtime.SlidingWindow, Rate: rate, Capacity: rate, Period: time.Minute, Precise: true}
		name := fmt.Sprintf("precise=%d", rate)
		if rate == 0 {
			p.Rate, p.Capacity, p.Precise, name = 1000, 1000, false, "approximate"
		}
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/callers=%d", name, callers), func(b *testing.B) {
				clock := storetest.NewClock()
				l := limiter.New(open(b, clock.Now)).Limit(p, runtime.Key{})
				// The log is full, and a token is due at each take.
				for range p.Rate {
					clock.Add(p.Period / time.Duration(p.Rate))
					_, err := l.Allow(b.Context())
					require.NoError(b, err)
				}
				b.SetParallelism(callers)
				b.ResetTimer()
				b.RunParallel(func(each *testing.PB) {
					for each.Next() {
						clock.Add(p.Period / time.Duration(p.Rate))
						if _, err := l.Allow(b.Context()); err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		}
	}
}

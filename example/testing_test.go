package main_test

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	limits "github.com/ratelimitgen/ratelimitgen/example/gen"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

// The code of runtime/TESTING.md is in this file, where it is compiled and run.
func TestPageOnTestingIsUpToDate(t *testing.T) {
	page, err := os.ReadFile("../runtime/TESTING.md")
	require.NoError(t, err)
	file, err := os.ReadFile("testing_test.go")
	require.NoError(t, err)
	_, code, _ := strings.Cut(string(file), "is in runtime/TESTING.md.\n")
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	require.Len(t, blocks, 7)
	for _, block := range blocks {
		require.Contains(t, code, "\n"+block[1], "copy it to example/testing_test.go")
		code = strings.Replace(code, block[1], "", 1)
	}
	require.NotContains(t, code, "func ", "runtime/TESTING.md lacks it")
}

// From here on, everything is in runtime/TESTING.md.

// post is the handler under test.
func post(limit *limits.Limits) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		user, err := strconv.ParseInt(r.FormValue("user"), 10, 64)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		err = limit.SendMessage(user).Require(r.Context())
		var denied *limits.LimitedError
		switch {
		case errors.As(err, &denied):
			w.Header().Set("Retry-After", strconv.FormatFloat(math.Ceil(denied.RetryIn().Seconds()), 'f', 0, 64))
			w.WriteHeader(http.StatusTooManyRequests)
		case err != nil:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}
}

// status returns the status of a request by user 42, and its Retry-After.
func status(h http.Handler) (code int, retryAfter string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("POST", "/messages?user=42", nil))
	return w.Code, w.Header().Get("Retry-After")
}

func TestMessagesAreLimited(t *testing.T) {
	clock := storetest.NewClock()
	handler := post(limits.New(&memstore.Store{Clock: clock.Now}))
	for range 20 {
		code, _ := status(handler)
		require.Equal(t, http.StatusOK, code)
	}
	code, retryAfter := status(handler)
	require.Equal(t, http.StatusTooManyRequests, code)
	require.Equal(t, "6", retryAfter)

	clock.Add(6 * time.Second)
	code, _ = status(handler)
	require.Equal(t, http.StatusOK, code)
}

func TestWorkerWaitsForItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := limits.New(&memstore.Store{}) // its clock is time.Now, and so the one of the bubble
		_, err := limit.SendMessage(42).AllowN(t.Context(), 20)
		require.NoError(t, err)
		start := time.Now()
		require.NoError(t, limit.SendMessage(42).Wait(t.Context()))
		require.Equal(t, 6*time.Second, time.Since(start))
	})
}

// order is code that takes a token in the transaction in which it writes.
func order(ctx context.Context, limit *limits.Limits, tx runtime.Tx) error {
	return limit.WithTx(tx).SendMessage(42).Require(ctx)
}

func TestRolledBackOrdersTakeNothing(t *testing.T) {
	store := &memstore.Store{}
	limit := limits.New(store)
	tx := store.Begin()
	require.NoError(t, order(t.Context(), limit, tx))
	require.NoError(t, tx.Rollback())
	left, err := limit.SendMessage(42).Peek(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 20, left.Remaining)
}

func TestMessagesFailWithTheStore(t *testing.T) {
	down := &memstore.Store{Fail: func(context.Context) error { return errors.New("the database is down") }}
	code, _ := status(post(limits.New(down)))
	require.Equal(t, http.StatusServiceUnavailable, code, "the limit has onError: closed")
}

func TestSearchesPassWithoutTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		hung := &memstore.Store{Fail: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
		d, err := limits.New(hung).Search(netip.MustParseAddr("192.0.2.1")).Allow(t.Context())
		require.NoError(t, err)
		require.True(t, d.Allowed)
		require.Error(t, d.FailedOpen, "the limit has onError: open")
		require.Equal(t, 250*time.Millisecond, time.Since(start), "and timeout: 250ms")
	})
}

// spy is an observer that keeps the calls that it sees.
type spy struct{ seen []runtime.Observation }

func (s *spy) Decided(_ context.Context, o runtime.Observation) { s.seen = append(s.seen, o) }

func TestEachMessageTakesOneTokenOfItsUser(t *testing.T) {
	watch := &spy{}
	handler := post(limits.New(&memstore.Store{}, limiter.Observe(watch)))
	status(handler)
	require.Len(t, watch.seen, 1)
	seen := watch.seen[0]
	require.Equal(t, "sendMessage", seen.Limit)
	require.Equal(t, runtime.OutcomeAllowed, seen.Outcome)
	require.EqualValues(t, 1, seen.Taken)
	// Observations have no keys, but their fingerprints.
	require.Equal(t, runtime.Fingerprint(nil, "42"), seen.Fingerprint(nil))
}

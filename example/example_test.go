package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	limits "github.com/ratelimitgen/ratelimitgen/example/gen"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
)

var update = flag.Bool("update", false, "update testdata/story.txt and the reference in the README")

func TestStoryMatchesGoldenFile(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), "", &out))
	first, rest, _ := strings.Cut(out.String(), "\n")
	assert.Contains(t, first, "limits.db")
	golden := filepath.Join("testdata", "story.txt")
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(rest), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.Equal(t, string(want), rest, "after an intended change, run go test ./example -update")
}

func TestAPIReturnsDecisionsAsStatusCodes(t *testing.T) {
	store, err := sqlite.Open(":memory:")
	require.NoError(t, err)
	api := handler(limits.New(store))
	post := func(target string) (*httptest.ResponseRecorder, reply) {
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequest(http.MethodPost, target, nil))
		var body reply
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body), w.Body)
		return w, body
	}

	for i := range 20 {
		w, body := post("/messages?user=42")
		assert.Equal(t, http.StatusOK, w.Code)
		assert.True(t, body.Allowed)
		assert.Equal(t, int64(19-i), body.Remaining)
	}
	w, body := post("/messages?user=42")
	assert.Equal(t, http.StatusTooManyRequests, w.Code)
	assert.Equal(t, "6", w.Header().Get("Retry-After"))
	assert.InDelta(t, 6000, body.RetryAfterMS, 500)
	assert.Equal(t, "sendMessage", body.Limit)

	for range 10 {
		w, _ = post("/logins?user=ada&password=wrong")
		assert.Equal(t, http.StatusOK, w.Code)
	}
	w, _ = post("/logins?user=ada&password=right")
	assert.Equal(t, http.StatusTooManyRequests, w.Code, "the right password after too many wrong ones")

	w, body = post("/completions?team=blue&model=large&tokens=30000")
	assert.Equal(t, http.StatusOK, w.Code)
	w, body = post("/completions?team=blue&model=large&tokens=30000")
	assert.Equal(t, http.StatusTooManyRequests, w.Code)
	assert.Equal(t, "llmTokens", body.Limit)
	w, body = post("/completions?team=blue&model=large&tokens=50000")
	assert.Equal(t, http.StatusBadRequest, w.Code)
	assert.Contains(t, body.Error, "count exceeds capacity")

	w, _ = post("/completions?team=blue&model=large&tokens=-5")
	assert.Equal(t, http.StatusBadRequest, w.Code)

	_, body = post("/exports?org=7")
	assert.Equal(t, int64(30_000), body.DelayMS)
	w, _ = post("/exports?org=seven")
	assert.Equal(t, http.StatusBadRequest, w.Code)

	require.NoError(t, store.Close())
	w, body = post("/sign-ups")
	assert.Equal(t, http.StatusServiceUnavailable, w.Code, "a failed store never allows")
	assert.False(t, body.Allowed)
}

// If two limits deny a request, it can pass when both allow it.
func TestRetryAfterIsTheLongestOfSeveralLimits(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	l := limits.New(&runtime.MemStore{Clock: func() time.Time { return now }})
	requests, tokens := l.LLMRequests("blue", "large"), l.LLMTokens("blue", "large")
	require.NoError(t, requests.RequireN(t.Context(), 1000))
	require.NoError(t, tokens.RequireN(t.Context(), 40_000))
	first, err := requests.Allow(t.Context())
	require.NoError(t, err)
	for count, wait := range map[int64]time.Duration{1: first.RetryAfter, 40_000: time.Minute} {
		w := httptest.NewRecorder()
		target := fmt.Sprintf("/completions?team=blue&model=large&tokens=%d", count)
		handler(l).ServeHTTP(w, httptest.NewRequest(http.MethodPost, target, nil))
		assert.Equal(t, http.StatusTooManyRequests, w.Code)
		assert.Equal(t, fmt.Sprint(math.Ceil(wait.Seconds())), w.Header().Get("Retry-After"), "of %d tokens", count)
	}
}

func TestServerStopsWhenContextEnds(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var out bytes.Buffer
	require.NoError(t, run(ctx, "127.0.0.1:0", &out))
	assert.Contains(t, out.String(), "Listening on http://127.0.0.1:")
}

// A signal during a request: the request is answered, and no other connection is accepted.
func TestSignalFinishesRequestInFlight(t *testing.T) {
	for _, sent := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run(sent.String(), func(t *testing.T) {
			ctx, stop := untilSignal()
			defer stop()
			out, printed := io.Pipe()
			ended := make(chan error, 1)
			go func() {
				err := run(ctx, "127.0.0.1:0", printed)
				printed.Close()
				ended <- err
			}()
			lines := bufio.NewReader(out)
			first, err := lines.ReadString('\n')
			require.NoError(t, err)
			go io.Copy(io.Discard, lines)
			address := strings.TrimSpace(first[strings.LastIndex(first, "/")+1:])

			request, err := net.Dial("tcp", address)
			require.NoError(t, err)
			defer request.Close()
			_, err = io.WriteString(request, "POST /messages HTTP/1.1\r\nHost: example\r\nConnection: close\r\n"+
				"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 7\r\nExpect: 100-continue\r\n\r\n")
			require.NoError(t, err)
			answers := bufio.NewReader(request)
			status, err := answers.ReadString('\n')
			require.NoError(t, err)
			require.Contains(t, status, "100 Continue", "the handler reads the form")

			self, err := os.FindProcess(os.Getpid())
			require.NoError(t, err)
			require.NoError(t, self.Signal(sent))
			require.Eventually(t, func() bool {
				c, err := net.Dial("tcp", address)
				if err == nil {
					c.Close()
				}
				return err != nil
			}, 10*time.Second, time.Millisecond, "no more connections")
			_, err = io.WriteString(request, "user=42")
			require.NoError(t, err)
			answer, err := io.ReadAll(answers)
			require.NoError(t, err)
			assert.Contains(t, string(answer), "200 OK")
			assert.NoError(t, <-ended)
		})
	}
}

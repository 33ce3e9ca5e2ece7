package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	limits "github.com/ratelimitgen/ratelimitgen/example/gen"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
)

var update = flag.Bool("update", false, "write the golden file")

// TestStory compares the story with what it was when somebody read it.
func TestStory(t *testing.T) {
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
	assert.Equal(t, string(want), rest)
}

func TestAPI(t *testing.T) {
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
	assert.Equal(t, http.StatusTooManyRequests, w.Code, "the right password comes too late")

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
	assert.Equal(t, http.StatusServiceUnavailable, w.Code, "a store that does not answer never allows")
	assert.False(t, body.Allowed)
}

// TestListen serves until its context ends.
func TestListen(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var out bytes.Buffer
	require.NoError(t, run(ctx, "127.0.0.1:0", &out))
	assert.Contains(t, out.String(), "Listening on http://127.0.0.1:")
}

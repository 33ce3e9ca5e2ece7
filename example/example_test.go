package main

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	limits "github.com/ratelimitgen/ratelimitgen/example/gen"
	"github.com/ratelimitgen/ratelimitgen/runtime/operate"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

var update = flag.Bool("update", false, "update testdata/story.txt and the reference in the README")

func TestStoryMatchesGoldenFile(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), "", "", "", &out))
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

// serve returns a function that sends a request to the server's handler.
func serve(t *testing.T) (do func(method, target string) *httptest.ResponseRecorder, db *sql.DB, store *sqlstore.Store) {
	t.Helper()
	db, store, err := openDatabase(t.Context(), filepath.Join(t.TempDir(), "app?#.db"))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, errors.Join(store.Close(), db.Close())) })
	h, _ := handlers(db, store, "")
	return func(method, target string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, target, nil))
		return w
	}, db, store
}

func TestRoutes(t *testing.T) {
	do, db, store := serve(t)
	for range 5 {
		assert.Equal(t, http.StatusOK, do("GET", "/search?q=cats").Code)
	}
	w := do("GET", "/search?q=cats")
	assert.Equal(t, http.StatusTooManyRequests, w.Code)
	assert.Regexp(t, `^"search";r=0;t=\d+$`, w.Header().Get("RateLimit"))
	assert.JSONEq(t, `["search"]`, violated(t, w))

	for range 20 {
		assert.Equal(t, http.StatusCreated, do("POST", "/messages?user=42&text=hello").Code)
	}
	w = do("POST", "/messages?user=42&text=hello")
	assert.Equal(t, http.StatusTooManyRequests, w.Code)
	assert.Equal(t, "6", w.Header().Get("Retry-After"))
	var messages int
	require.NoError(t, db.QueryRow("SELECT count(*) FROM messages").Scan(&messages))
	assert.Equal(t, 20, messages, "a message that was denied is not stored")
	assert.Equal(t, http.StatusBadRequest, do("POST", "/messages?user=ada").Code)

	for range 10 {
		assert.Equal(t, http.StatusUnauthorized, do("POST", "/login?user=ada&password=wrong").Code)
	}
	assert.Equal(t, http.StatusTooManyRequests, do("POST", "/login?user=ada&password=right").Code, "after too many wrong ones")
	assert.Equal(t, http.StatusOK, do("POST", "/login?user=bob&password=right").Code)

	assert.Contains(t, do("GET", "/orgs/1/report").Header().Get("RateLimit-Policy"), `"apiCalls";q=100;`)
	assert.Contains(t, do("GET", "/orgs/2/report").Header().Get("RateLimit-Policy"), `"apiCalls";q=1000;`)
	assert.Empty(t, do("GET", "/orgs/3/report").Header().Get("RateLimit-Policy"), "unlimited")
	assert.Equal(t, http.StatusNotFound, do("GET", "/orgs/4/report").Code)
	assert.Equal(t, http.StatusBadRequest, do("GET", "/orgs/one/report").Code)

	metrics := do("GET", "/metrics").Body.String()
	assert.Contains(t, metrics, `ratelimitgen_requests_total{limit="sendMessage",outcome="denied"} 1`)
	assert.NotContains(t, metrics, "bob")

	_, err := db.Exec("DROP TABLE rate_limits")
	require.NoError(t, err)
	w = do("GET", "/orgs/1/report")
	assert.Equal(t, http.StatusServiceUnavailable, w.Code, "a store that fails never allows")
	assert.Equal(t, "1", w.Header().Get("Retry-After"))
	require.NoError(t, store.Close())
	assert.Equal(t, http.StatusInternalServerError, do("GET", "/orgs/1/report").Code, "requests after Close are a mistake of the program")
}

// The page of operators is not among the routes of clients, and cannot be read without the password.
func TestPageOfOperators(t *testing.T) {
	db, store, err := openDatabase(t.Context(), filepath.Join(t.TempDir(), "app.db"))
	require.NoError(t, err)
	defer func() { assert.NoError(t, errors.Join(store.Close(), db.Close())) }()
	require.NoError(t, limits.New(store).FailedLogins("bob").Require(t.Context()))
	routes, page := handlers(db, store, "open sesame")
	get := func(h http.Handler, target, password string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", "http://localhost:8081"+target, nil)
		if password != "" {
			r.SetBasicAuth("ada", password)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	for _, target := range []string{"/", "/limit?name=failedLogins", "/debug/limits/"} {
		assert.Equal(t, http.StatusNotFound, get(routes, target, "open sesame").Code, target)
		for _, password := range []string{"", "open", "open sesame!"} {
			w := get(page, target, password)
			assert.Equal(t, http.StatusUnauthorized, w.Code, target)
			assert.NotContains(t, w.Body.String(), "failedLogins")
		}
	}
	w := get(page, "/limit?name=failedLogins", "open sesame")
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Contains(t, w.Body.String(), "Keys in use: 1.")
	assert.NotContains(t, w.Body.String(), "bob")

	for _, addr := range []string{":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:0"} {
		_, err := listenLoopback(addr)
		assert.ErrorContains(t, err, "for this machine only", addr)
	}
	listener, err := listenLoopback("localhost:0")
	require.NoError(t, err)
	assert.True(t, listener.Addr().(*net.TCPAddr).IP.IsLoopback())
	assert.NoError(t, listener.Close())
}

// violated returns the limits that deny, from the body of a response.
func violated(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	var body struct {
		Violated json.RawMessage `json:"violated-policies"`
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body), w.Body)
	return string(body.Violated)
}

// A completion takes the most that it can cost, and gives back the rest.
func TestCompletionIsSettled(t *testing.T) {
	do, _, store := serve(t)
	w := do("POST", "/completions?team=blue&model=large&prompt=hello")
	assert.Equal(t, "used 105 tokens\n", w.Body.String())
	b, err := limits.New(store).LLMTokens("blue", "large").Peek(t.Context())
	require.NoError(t, err)
	assert.InDelta(t, 40_000-105, b.Remaining, 105)
}

// If two limits deny a request, it can pass when both allow it.
func TestRetryAfterIsTheLongestOfSeveralLimits(t *testing.T) {
	do, _, store := serve(t)
	limit := limits.New(store)
	require.NoError(t, limit.LLMRequests("blue", "large").RequireN(t.Context(), 1000))
	for range 2 { // also from a key in debt
		_, err := limit.LLMTokens("blue", "large").Charge(t.Context(), 40_000)
		require.NoError(t, err)
	}
	w := do("POST", "/completions?team=blue&model=large&prompt=hello")
	assert.Equal(t, http.StatusTooManyRequests, w.Code)
	assert.JSONEq(t, `["llmRequests", "llmTokens"]`, violated(t, w))
	assert.Equal(t, "75", w.Header().Get("Retry-After"), "until 10,000 of 40,000 tokens a minute are there, from -40,000")
}

func TestServerStopsWhenContextEnds(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	out := stopAtWrite{stop: stop}
	require.NoError(t, run(ctx, "", "127.0.0.1:0", "localhost:0", &out))
	assert.Contains(t, out.String(), "Listening on http://127.0.0.1:")
	assert.Regexp(t, `and open http://operator:\w+@\S+:\d+/ in a browser`, out.String())
}

// stopAtWrite keeps the text written to it, and calls stop.
type stopAtWrite struct {
	bytes.Buffer
	stop func()
}

func (w *stopAtWrite) Write(text []byte) (int, error) {
	w.stop()
	return w.Buffer.Write(text)
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
				err := run(ctx, "", "127.0.0.1:0", "localhost:0", printed)
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
			assert.Contains(t, string(answer), "201 Created")
			assert.NoError(t, <-ended)
		})
	}
}

// sharedBuffer is a buffer that several goroutines write.
type sharedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *sharedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *sharedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Operators read and change the counts of a server, and find the key of a fingerprint in its log.
func TestOperators(t *testing.T) {
	t.Setenv("LIMITS_SECRET", "one secret for all")
	var log sharedBuffer
	var out bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewJSONHandler(&log, nil)))
	defer slog.SetDefault(before)
	path := filepath.Join(t.TempDir(), "app.db")
	operates := func(want int, args ...string) string {
		out.Reset()
		assert.Equal(t, want, operateLimits(t.Context(), path, args, &out, &out), "%s", &out)
		return out.String()
	}
	assert.Contains(t, operates(operate.Usage, "top"), "no file of a server")
	assert.NoFileExists(t, path)

	db, store, err := openDatabase(t.Context(), path)
	require.NoError(t, err)
	h, _ := handlers(db, store, "")
	for range 21 {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/messages?user=42&text=hello", nil))
	}
	require.NoError(t, errors.Join(store.Close(), db.Close()))
	var line struct{ Limit, Key string }
	// The observers of other tests may log meanwhile.
	for lines := json.NewDecoder(strings.NewReader(log.String())); line.Limit != "sendMessage"; {
		require.NoError(t, lines.Decode(&line), "%s", &log)
	}
	assert.Regexp(t, `sendMessage +42\n$`, operates(operate.OK, "who", line.Key))
	assert.Regexp(t, `sendMessage +- +42 +0`, operates(operate.OK, "top"))
	page, err := os.ReadFile("README.md")
	require.NoError(t, err)
	calls := regexp.MustCompile(`(?m)^go run \./example -db app\.db limits (.*)$`).FindAllStringSubmatch(string(page), -1)
	require.Greater(t, len(calls), 4)
	for _, call := range calls {
		var args []string
		for _, word := range regexp.MustCompile(`'[^']*'|\S+`).FindAllString(call[1], -1) {
			args = append(args, strings.Trim(word, "'"))
		}
		if args[0] == "who" {
			args[1] = line.Key // that of the page is of another secret
		}
		operates(operate.OK, args...)
	}
	assert.Contains(t, operates(operate.OK, "show", "sendMessage", "42"), "our outage")
	assert.Contains(t, operates(operate.Usage, "shwo"), `did you mean "show"?`)
}

package frameworks

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/gorilla/mux"
	echo4 "github.com/labstack/echo/v4"
	"github.com/labstack/echo/v5"
	"github.com/stretchr/testify/require"

	limits "github.com/ratelimitgen/ratelimitgen/example/gen"
	"github.com/ratelimitgen/ratelimitgen/runtime/limithttp"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// perUser returns a route whose function fails for users that are no number, and returns a status for user 0. User -1 has a
// store that fails.
func perUser(user func(*http.Request) string) *limithttp.Route {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	limit := limits.New(&memstore.Store{Clock: func() time.Time { return now }})
	h := limithttp.New(limit, limithttp.Options{OnError: func(*http.Request, error) {}})
	return h.Limit(func(r *http.Request) (limits.Item, error) {
		id, err := strconv.ParseInt(user(r), 10, 64)
		switch id {
		case 0:
			return nil, cmp.Or(err, limithttp.Error(http.StatusForbidden, errors.New("banned")))
		case -1:
			return nil, limithttp.Error(http.StatusServiceUnavailable, errors.New("down"))
		}
		return limit.SendMessage(id), err
	})
}

// routers returns a server of the same route for each framework.
func routers() map[string]http.Handler {
	gin.SetMode(gin.ReleaseMode)
	post := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Posted", "yes")
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, "posted\n")
	}
	path := func(r *http.Request) string { return r.PathValue("user") }
	standard := http.NewServeMux()
	standard.Handle("POST /users/{user}/messages", perUser(path).Wrap(http.HandlerFunc(post)))
	return map[string]http.Handler{
		"net/http": standard,
		"chi":      chiRouter(perUser(path), post),
		"gorilla":  gorillaRouter(perUser(func(r *http.Request) string { return mux.Vars(r)["user"] }), post),
		"gin":      ginRouter(perUser(path), gin.WrapF(post)),
		"echo":     echoRouter(perUser(path), func(c *echo.Context) error { post(c.Response(), c.Request()); return nil }),
		"echo v4":  echo4Router(perUser(path), func(c echo4.Context) error { post(c.Response(), c.Request()); return nil }),
	}
}

// exchange sends requests of a user, one after the other, and returns the bytes of all responses without the fields Date.
func exchange(t *testing.T, router http.Handler, users ...string) string {
	t.Helper()
	server := httptest.NewUnstartedServer(router)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	defer server.Close()
	var all strings.Builder
	for _, user := range users {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		require.NoError(t, err)
		fmt.Fprintf(conn, "POST /users/%s/messages HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", user)
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			if !strings.HasPrefix(lines.Text(), "Date: ") {
				fmt.Fprintln(&all, lines.Text())
			}
		}
		conn.Close()
	}
	return all.String()
}

// TestFrameworksAnswerAsNetHTTP compares status, fields and body of allowed and denied requests, and of errors.
func TestFrameworksAnswerAsNetHTTP(t *testing.T) {
	users := []string{"7", "nobody", "0", "-1"}
	for range 22 {
		users = append(users, "42")
	}
	want := exchange(t, routers()["net/http"], users...)
	for _, part := range []string{"201 Created", "X-Posted: yes", "429 Too Many Requests", "400 Bad Request", "403 Forbidden", "503 Service Unavailable", "Retry-After: 6", `"sendMessage";r=19;t=114`} {
		require.Contains(t, want, part)
	}
	for name, router := range routers() {
		t.Run(name, func(t *testing.T) { require.Equal(t, want, exchange(t, router, users...)) })
	}
}

// A denied request must not run the handlers after the limit, and an allowed one runs them with the context for Settle.
func TestGinAbortsAndSettles(t *testing.T) {
	limit := limits.New(&memstore.Store{})
	route := limithttp.New(limit, limithttp.Options{}).Limit(func(*http.Request) (limits.Item, error) {
		return limit.FailedLogins("ada").N(10), nil
	})
	ran := 0
	router := gin.New()
	router.GET("/", ginLimit(route), func(c *gin.Context) { ran++; c.Next() }, func(c *gin.Context) {
		ran++
		if c.Query("settle") != "" {
			require.NoError(t, limithttp.Settle(c.Request.Context(), 1))
		}
	})
	status := func(target string) int {
		w := httptest.NewRecorder()
		router.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
		return w.Code
	}
	require.Equal(t, http.StatusOK, status("/"))
	require.Equal(t, http.StatusTooManyRequests, status("/"))
	require.Equal(t, 2, ran)
	require.NoError(t, limit.FailedLogins("ada").Reset(t.Context()))
	require.Equal(t, http.StatusOK, status("/?settle=1"))
	balance, err := limit.FailedLogins("ada").Peek(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 9, balance.Remaining)
}

func TestEchoSettles(t *testing.T) {
	limit := limits.New(&memstore.Store{})
	route := limithttp.New(limit, limithttp.Options{}).Limit(func(*http.Request) (limits.Item, error) {
		return limit.FailedLogins("ada").N(10), nil
	})
	router := echoRouter(route, func(c *echo.Context) error { return limithttp.Settle(c.Request().Context(), 1) })
	w := httptest.NewRecorder()
	router.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/users/42/messages", nil))
	require.Equal(t, http.StatusOK, w.Code)
	balance, err := limit.FailedLogins("ada").Peek(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 9, balance.Remaining)
}

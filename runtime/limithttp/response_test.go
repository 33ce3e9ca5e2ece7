package limithttp_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/limithttp"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

func unauthorized(status int) bool { return status == http.StatusUnauthorized }

// TestCountWhen is the table of statuses, with a server and a client. The limit has 20 tokens, and each request takes 2.
func TestCountWhen(t *testing.T) {
	for _, row := range []struct {
		what string
		// asked is the status for which CountWhen is asked.
		asked  int
		handle http.HandlerFunc
	}{
		{"a status", 401, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(401) }},
		{"another one", 204, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(204) }},
		{"the first of two", 401, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(401); w.WriteHeader(200) }},
		{"none", 200, func(w http.ResponseWriter, r *http.Request) {}},
		{"a body only", 200, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "found") }},
		{"a copied body only", 200, func(w http.ResponseWriter, r *http.Request) { io.Copy(w, strings.NewReader("found")) }},
		{"a flush only", 200, func(w http.ResponseWriter, r *http.Request) { http.NewResponseController(w).Flush() }},
		{"a stream", 401, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(401)
			for range 3 {
				io.WriteString(w, "more\n")
				w.(http.Flusher).Flush()
			}
		}},
		{"early hints before it", 401, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(103); w.WriteHeader(401) }},
		{"a panic", 500, func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }},
		{"a panic after it", 401, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(401); panic(http.ErrAbortHandler) }},
		{"a hijacked connection", 101, func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				conn.Close()
			}
		}},
		{"settled by the handler", 204, func(w http.ResponseWriter, r *http.Request) {
			limithttp.Settle(r.Context(), 2)
			w.WriteHeader(204)
		}},
	} {
		t.Run(row.what, func(t *testing.T) {
			w := newWorld()
			limit, asked := w.limiter.Limit(with(bucket(), same), ada), make(chan int, 1)
			h := limithttp.New(w.limiter, limithttp.Options{})
			route := h.All(taking(limit.N(2))).CountWhen(func(status int) bool { asked <- status; return unauthorized(status) })
			handler, returned := route.Wrap(row.handle), make(chan bool, 1)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer func() { returned <- true }()
				handler.ServeHTTP(w, r)
			}))
			if response, err := http.Get(server.URL); err == nil {
				_, _ = io.ReadAll(response.Body)
				response.Body.Close()
			}
			<-returned // Close does not wait for a handler with a hijacked connection
			server.Close()
			require.Equal(t, row.asked, <-asked)
			want := int64(20)
			if unauthorized(row.asked) || row.what == "settled by the handler" {
				want = 18
			}
			require.Equal(t, want, left(t, limit))
		})
	}
}

// Tokens are taken before the handler runs, so that more requests than the limit allows cannot run at a time.
func TestCountWhenTakesFirst(t *testing.T) {
	w := newWorld()
	limit := w.limiter.Limit(with(bucket(), same), ada)
	route := limithttp.New(w.limiter, limithttp.Options{}).All(taking(limit.N(15))).CountWhen(unauthorized)
	response := serve(route.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		require.Equal(t, http.StatusTooManyRequests, serve(route.Wrap(http.NotFoundHandler())).Code)
	})))
	require.Equal(t, http.StatusOK, response.Code)
	require.EqualValues(t, 20, left(t, limit))
}

// What a route around has taken counts as that route says.
func TestCountWhenLeavesTheRouteAround(t *testing.T) {
	w := newWorld()
	shared, own := w.limiter.Limit(with(bucket(), same), ada), w.limiter.Limit(with(window(), same), ada)
	h := limithttp.New(w.limiter, limithttp.Options{})
	inner := h.All(taking(shared, own)).CountWhen(unauthorized).Wrap(http.NotFoundHandler())
	require.Equal(t, http.StatusNotFound, serve(h.All(taking(shared)).Wrap(inner)).Code)
	require.EqualValues(t, 19, left(t, shared))
	require.EqualValues(t, 5, left(t, own))
}

// The client has gone when the handler returns, and the connection of HTTP/2 cannot be hijacked.
func TestCountWhenWithHTTP2AndWithoutAClient(t *testing.T) {
	w := newWorld()
	limit, done := w.limiter.Limit(with(bucket(), same), ada), make(chan struct{})
	handler := limithttp.New(w.limiter, limithttp.Options{}).All(taking(limit)).CountWhen(unauthorized).Wrap(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, ok := w.(http.Hijacker)
			require.False(t, ok)
			io.WriteString(w, "first\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		handler.ServeHTTP(w, r)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
	require.NoError(t, err)
	response, err := server.Client().Do(request)
	require.NoError(t, err)
	require.Equal(t, 2, response.ProtoMajor)
	line, err := bufio.NewReader(response.Body).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "first\n", line)
	require.EqualValues(t, 19, left(t, limit))
	cancel()
	<-done
	require.EqualValues(t, 20, left(t, limit))
}

// failing is a store that may fail.
type failing struct {
	memstore.Store
	fails bool
}

func (f *failing) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	if f.fails {
		return nil, errDown
	}
	return f.Store.Do(ctx, calls)
}

func TestCountWhenReportsAFailedStore(t *testing.T) {
	store := new(failing)
	limits := limiter.New(store)
	var reported error
	h := limithttp.New(limits, limithttp.Options{OnError: func(_ *http.Request, err error) { reported = err }})
	route := h.All(taking(limits.Limit(with(bucket(), same), ada))).CountWhen(unauthorized)
	response := serve(route.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { store.fails = true })))
	require.Equal(t, http.StatusOK, response.Code)
	require.ErrorIs(t, reported, errDown)
}

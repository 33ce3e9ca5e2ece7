package limithttp_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/limithttp"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// exports is a limit of two slots, and its server.
type exports struct {
	*testing.T
	limiter *limiter.Limiter
	slots   limiter.SlotLimit
	server  *httptest.Server
}

func newExports(t *testing.T, handler http.HandlerFunc) *exports {
	p := &runtime.Policy{Name: "exports", Kind: runtime.InFlight, Slots: 2, Hold: time.Minute}
	l := limiter.New(&memstore.Store{})
	e := &exports{t, l, l.Slots(p, runtime.KeyOf(runtime.Int(42))), nil}
	h := limithttp.New(l, limithttp.Options{OnError: func(_ *http.Request, err error) { t.Errorf("OnError: %v", err) }})
	route := h.InFlight(func(*http.Request) (limiter.SlotLimit, error) { return e.slots, nil })
	e.server = httptest.NewServer(route.Wrap(handler))
	t.Cleanup(e.server.Close)
	return e
}

func (e *exports) used() int64 {
	b, err := e.slots.Peek(e.Context())
	require.NoError(e, err)
	return b.Used
}

func (e *exports) get() *http.Response {
	response, err := e.server.Client().Get(e.server.URL)
	require.NoError(e, err)
	e.Cleanup(func() { response.Body.Close() })
	return response
}

// eventuallyFree requires that no slot is held: a server ends a handler after the client has its response.
func (e *exports) eventuallyFree() {
	require.Eventually(e, func() bool { return e.used() == 0 }, 10*time.Second, time.Millisecond)
}

// A slot is held until the last byte of a stream.
func TestInFlightHoldsASlotForTheHandler(t *testing.T) {
	finish := make(chan struct{})
	e := newExports(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "first\n")
		w.(http.Flusher).Flush()
		<-finish
		io.WriteString(w, "last\n")
	})
	first, second := e.get(), e.get()
	require.Equal(t, `"exports";q=2;qu="concurrent-requests"`, first.Header.Get("RateLimit-Policy"))
	require.Equal(t, `"exports";r=1`, first.Header.Get("RateLimit"))
	require.Equal(t, `"exports";r=0`, second.Header.Get("RateLimit"))
	require.EqualValues(t, 2, e.used())
	denied := e.get()
	require.Equal(t, http.StatusTooManyRequests, denied.StatusCode)
	require.Equal(t, "60", denied.Header.Get("Retry-After"))
	require.Equal(t, `"exports";q=2;qu="concurrent-requests"`, denied.Header.Get("RateLimit-Policy"))
	require.Equal(t, `"exports";r=0`, denied.Header.Get("RateLimit"), "no time frees a slot for certain")
	close(finish)
	for _, response := range []*http.Response{first, second} {
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.Equal(t, "first\nlast\n", string(body))
	}
	e.eventuallyFree()
}

// Retry-After of a full limit is how long requests have held its slots in this process, and at most the rest of a hold.
func TestInFlightEstimatesRetryAfter(t *testing.T) {
	for _, row := range []struct {
		what       string
		hold, took time.Duration
		want       string
	}{
		{"no request has ended", time.Minute, 0, "60"},
		{"short requests", time.Minute, time.Millisecond, "1"},
		{"longer than a second", time.Minute, 1100 * time.Millisecond, "2"},
		{"longer than a hold, by renewals", time.Second, 1100 * time.Millisecond, "1"},
	} {
		t.Run(row.what, func(t *testing.T) {
			l := limiter.New(&memstore.Store{})
			slots := l.Slots(&runtime.Policy{Name: "exports", Kind: runtime.InFlight, Slots: 1, Hold: row.hold}, ada)
			h := limithttp.New(l, limithttp.Options{OnError: func(_ *http.Request, err error) { t.Errorf("OnError: %v", err) }})
			route := h.InFlight(func(*http.Request) (limiter.SlotLimit, error) { return slots, nil })
			server := httptest.NewServer(route.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(row.took) })))
			defer server.Close()
			get := func() (int, string) {
				response, err := server.Client().Get(server.URL)
				require.NoError(t, err)
				response.Body.Close()
				return response.StatusCode, response.Header.Get("Retry-After")
			}
			if row.took > 0 {
				status, _ := get()
				require.Equal(t, http.StatusOK, status)
			}
			var slot *limiter.Slot
			require.Eventually(t, func() bool {
				var err error
				slot, err = slots.Acquire(t.Context())
				return err == nil && slot.Allowed
			}, 10*time.Second, time.Millisecond)
			status, wait := get()
			require.Equal(t, http.StatusTooManyRequests, status)
			require.Equal(t, row.want, wait)
			response := httptest.NewRecorder()
			denied, err := slots.Acquire(t.Context())
			require.NoError(t, err)
			h.Deny(response, httptest.NewRequest(http.MethodGet, "/", nil), denied.Err())
			require.Equal(t, row.want, response.Header().Get("Retry-After"), "a handler that acquires the slot itself")
		})
	}
}

func TestInFlightReleasesAfterAPanic(t *testing.T) {
	e := newExports(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	_, err := e.server.Client().Get(e.server.URL)
	require.Error(t, err)
	e.eventuallyFree()
}

// The slot of a connection that was hijacked is held until it is closed, also if the handler has returned.
func TestInFlightHoldsASlotForAHijackedConnection(t *testing.T) {
	hijacked := make(chan net.Conn, 1)
	e := newExports(t, func(w http.ResponseWriter, r *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		io.WriteString(buffered, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
		buffered.Flush()
		hijacked <- conn
	})
	client, err := net.Dial("tcp", e.server.Listener.Addr().String())
	require.NoError(t, err)
	defer client.Close()
	io.WriteString(client, "GET / HTTP/1.1\r\nHost: exports\r\n\r\n")
	line, err := bufio.NewReader(client).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 101 Switching Protocols\r\n", line)
	conn := <-hijacked
	require.EqualValues(t, 1, e.used())
	require.IsType(t, &net.TCPConn{}, conn.(interface{ NetConn() net.Conn }).NetConn())
	require.NoError(t, conn.Close())
	e.eventuallyFree()
	require.Error(t, conn.Close())
}

// A file is sent as without the route, and HTTP/2 has no connection to hijack.
func TestInFlightKeepsTheWriter(t *testing.T) {
	e := newExports(t, func(w http.ResponseWriter, r *http.Request) {
		_, reads := w.(io.ReaderFrom)
		_, hijacks := w.(http.Hijacker)
		if reads != (r.ProtoMajor == 1) || hijacks != (r.ProtoMajor == 1) {
			t.Errorf("%s: the writer reads from %v, hijacks %v", r.Proto, reads, hijacks)
		}
		if err := http.NewResponseController(w).SetWriteDeadline(time.Time{}); err != nil {
			t.Error(err)
		}
	})
	require.Equal(t, http.StatusOK, e.get().StatusCode)
	second := httptest.NewUnstartedServer(e.server.Config.Handler)
	second.EnableHTTP2 = true
	second.StartTLS()
	defer second.Close()
	response, err := second.Client().Get(second.URL)
	require.NoError(t, err)
	response.Body.Close()
	require.Equal(t, 2, response.ProtoMajor)
	e.eventuallyFree()
}

// A slot that is lost ends the context of the request, and is an error of the route.
func TestInFlightReportsALostSlot(t *testing.T) {
	p := &runtime.Policy{Name: "exports", Kind: runtime.InFlight, Slots: 1, Hold: 30 * time.Millisecond}
	l := limiter.New(&memstore.Store{})
	slots := l.Slots(p, runtime.Key{})
	var failed error
	h := limithttp.New(l, limithttp.Options{OnError: func(_ *http.Request, err error) { failed = err }})
	b := bucket()
	tokens := l.Limit(&b, runtime.Key{})
	response := serve(h.All(taking(tokens, slots)).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := slots.Reset(r.Context()); err != nil {
			t.Error(err)
		}
		<-r.Context().Done()
		require.ErrorIs(t, context.Cause(r.Context()), runtime.ErrSlotLost)
	})))
	require.Equal(t, http.StatusOK, response.Code)
	require.ErrorIs(t, failed, runtime.ErrSlotLost)
}

// plain is the writer of a middleware in the form that net/http documents: it has Unwrap and no other method.
type plain struct{ http.ResponseWriter }

func (p plain) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// middleware puts such writers before a handler, one around the other.
func middleware(depth int, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range depth {
			w = plain{w}
		}
		next.ServeHTTP(w, r)
	})
}

// A connection that was hijacked through the writers of other middleware holds its slot, wherever they stand.
func TestInFlightHoldsASlotBehindOtherMiddleware(t *testing.T) {
	for _, row := range []struct {
		name            string
		outside, inside int
	}{{"around the route", 1, 0}, {"deep", 3, 0}, {"inside of the route", 0, 2}, {"both", 2, 2}} {
		t.Run(row.name, func(t *testing.T) {
			conns := make(chan net.Conn, 3)
			e := newExports(t, nil)
			route := limithttp.New(e.limiter, limithttp.Options{}).InFlight(func(*http.Request) (limiter.SlotLimit, error) { return e.slots, nil })
			e.server.Config.Handler = middleware(row.outside, route.Wrap(middleware(row.inside, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); err != nil {
					t.Error(err)
				}
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
				conns <- conn
			}))))
			var open []net.Conn
			for range 2 {
				client, err := net.Dial("tcp", e.server.Listener.Addr().String())
				require.NoError(t, err)
				defer client.Close()
				io.WriteString(client, "GET / HTTP/1.1\r\nHost: exports\r\n\r\n")
				open = append(open, <-conns)
			}
			require.EqualValues(t, 2, e.used(), "the handlers have returned, and their connections are open")
			require.Equal(t, http.StatusTooManyRequests, e.get().StatusCode)
			for _, conn := range open {
				require.NoError(t, conn.Close())
			}
			e.eventuallyFree()
		})
	}
}

// A stream through other middleware is flushed, and the error of a flush is returned.
func TestInFlightFlushesBehindOtherMiddleware(t *testing.T) {
	finish := make(chan struct{})
	e := newExports(t, nil)
	route := limithttp.New(e.limiter, limithttp.Options{}).InFlight(func(*http.Request) (limiter.SlotLimit, error) { return e.slots, nil })
	e.server.Config.Handler = middleware(2, route.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "first\n")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		<-finish
	})))
	response := e.get()
	line, err := bufio.NewReader(response.Body).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "first\n", line)
	require.EqualValues(t, 1, e.used())
	close(finish)
	e.eventuallyFree()

	failing := brokenWriter{httptest.NewRecorder()}
	route.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.ErrorIs(t, http.NewResponseController(w).Flush(), net.ErrClosed)
		_, _, err := http.NewResponseController(w).Hijack()
		require.ErrorIs(t, err, net.ErrClosed)
	})).ServeHTTP(failing, httptest.NewRequest(http.MethodGet, "/", nil))
	require.Zero(t, e.used())
}

// brokenWriter is the writer of a connection that is gone.
type brokenWriter struct{ *httptest.ResponseRecorder }

func (brokenWriter) FlushError() error { return net.ErrClosed }

func (brokenWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, net.ErrClosed }

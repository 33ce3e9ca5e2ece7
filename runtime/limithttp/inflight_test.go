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
	slots  limiter.SlotLimit
	server *httptest.Server
}

func newExports(t *testing.T, handler http.HandlerFunc) *exports {
	p := &runtime.Policy{Name: "exports", Kind: runtime.InFlight, Rate: 2, Capacity: 2, Period: time.Minute}
	l := limiter.New(&memstore.Store{})
	e := &exports{t, l.Slots(p, runtime.KeyOf(runtime.Int(42))), nil}
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
	require.Equal(t, `"exports";r=0;t=60`, denied.Header.Get("RateLimit"))
	close(finish)
	for _, response := range []*http.Response{first, second} {
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.Equal(t, "first\nlast\n", string(body))
	}
	e.eventuallyFree()
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
	p := &runtime.Policy{Name: "exports", Kind: runtime.InFlight, Rate: 1, Capacity: 1, Period: 30 * time.Millisecond}
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

package limithttp

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/ability"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// serve calls a handler while the slots of a request are held, if it has acquired any.
func (b *Binder) serve(w http.ResponseWriter, r *http.Request, ds limiter.Decisions, next http.Handler) {
	if !slices.ContainsFunc(ds.Each, func(d runtime.Decision) bool { return d.Fence != 0 }) {
		next.ServeHTTP(w, r)
		return
	}
	begun := time.Now()
	defer func() { b.holds.ended(ds, time.Since(begun)) }()
	err := ds.Do(r.Context(), func(ctx context.Context) error {
		w := hijackable(w)
		next.ServeHTTP(w, r.WithContext(ctx))
		if h, ok := w.(*hijacker); ok {
			h.wait()
		}
		return nil
	})
	if err != nil && b.options.OnError != nil {
		b.options.OnError(r, err)
	}
}

// hijackable returns a writer that notices if its connection is hijacked; w itself if it cannot be, also not through the
// writers of other middleware.
func hijackable(w http.ResponseWriter) http.ResponseWriter {
	if _, ok := ability.Of[http.Hijacker](w); !ok {
		return w
	}
	return &hijacker{ResponseWriter: w}
}

// hijacker is the ResponseWriter of HTTP/1.
type hijacker struct {
	http.ResponseWriter
	mu   sync.Mutex
	conn *hijacked
}

// Unwrap is for [http.ResponseController].
func (h *hijacker) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// Flush implements [http.Flusher].
func (h *hijacker) Flush() { _ = h.FlushError() }

// FlushError is for [http.ResponseController].
func (h *hijacker) FlushError() error { return http.NewResponseController(h.ResponseWriter).Flush() }

// ReadFrom implements [io.ReaderFrom], with which a file is sent without copies.
func (h *hijacker) ReadFrom(r io.Reader) (int64, error) { return io.Copy(h.ResponseWriter, r) }

// Hijack implements [http.Hijacker].
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return conn, buffered, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conn = &hijacked{Conn: conn, closed: make(chan struct{})}
	return h.conn, buffered, nil
}

// wait waits until a connection that was hijacked is closed.
func (h *hijacker) wait() {
	h.mu.Lock()
	conn := h.conn
	h.mu.Unlock()
	if conn != nil {
		<-conn.closed
	}
}

// hijacked is a connection that was hijacked.
type hijacked struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

// NetConn returns the connection itself, as that of a [crypto/tls.Conn] does.
func (c *hijacked) NetConn() net.Conn { return c.Conn }

// Close implements [net.Conn].
func (c *hijacked) Close() error {
	defer c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

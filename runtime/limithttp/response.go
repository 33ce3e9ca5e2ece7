package limithttp

import (
	"bufio"
	"cmp"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/ratelimitgen/ratelimitgen/runtime/internal/ability"
)

// response is the writer of a handler. It notes the status, and a connection that is hijacked.
type response struct {
	http.ResponseWriter
	// status is 0 until it is written.
	status int
	mu     sync.Mutex
	conn   *hijacked
}

// hijackable returns the writer with Hijack, and false if the connection cannot be hijacked, also not through the writers of
// other middleware.
func (w *response) hijackable() (http.ResponseWriter, bool) {
	_, ok := ability.Of[http.Hijacker](w.ResponseWriter)
	return hijackable{w}, ok
}

// statusAfter returns the status of a response when the handler has returned, or panics.
func (w *response) statusAfter(panics bool) int {
	if panics {
		return cmp.Or(w.status, http.StatusInternalServerError)
	}
	return cmp.Or(w.status, http.StatusOK)
}

// note notes a status, if it is the first one that is not of an informational response.
func (w *response) note(status int) {
	if w.status == 0 && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		w.status = status
	}
}

// Unwrap is for [http.ResponseController].
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (w *response) WriteHeader(status int) {
	w.ResponseWriter.WriteHeader(status)
	w.note(status)
}

// Write implements [io.Writer].
func (w *response) Write(b []byte) (int, error) {
	w.note(http.StatusOK)
	return w.ResponseWriter.Write(b)
}

// ReadFrom implements [io.ReaderFrom], with which a file is sent without copies.
func (w *response) ReadFrom(r io.Reader) (int64, error) {
	w.note(http.StatusOK)
	return io.Copy(w.ResponseWriter, r)
}

// Flush implements [http.Flusher].
func (w *response) Flush() { _ = w.FlushError() }

// FlushError is for [http.ResponseController].
func (w *response) FlushError() error {
	err := http.NewResponseController(w.ResponseWriter).Flush()
	if err == nil {
		w.note(http.StatusOK)
	}
	return err
}

// wait waits until a connection that was hijacked is closed.
func (w *response) wait() {
	w.mu.Lock()
	conn := w.conn
	w.mu.Unlock()
	if conn != nil {
		<-conn.closed
	}
}

// hijackable is the response on a connection that can be hijacked.
type hijackable struct{ *response }

// Hijack implements [http.Hijacker].
func (w hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return conn, buffered, err
	}
	w.note(http.StatusSwitchingProtocols)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conn = &hijacked{Conn: conn, closed: make(chan struct{})}
	return w.conn, buffered, nil
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

package limithttp

import (
	"bufio"
	"cmp"
	"io"
	"net"
	"net/http"

	"github.com/ratelimitgen/ratelimitgen/runtime/internal/ability"
)

// statusWriter notes the status of a response.
type statusWriter struct {
	http.ResponseWriter
	// status is 0 until it is written.
	status int
}

// asWriter returns the writer for a handler. It can be hijacked if that around it can.
func (s *statusWriter) asWriter() http.ResponseWriter {
	if _, ok := ability.Of[http.Hijacker](s.ResponseWriter); ok {
		return hijackableStatus{s}
	}
	return s
}

// statusAfter returns the status of a response when the handler has returned, or panics.
func (s *statusWriter) statusAfter(panics bool) int {
	if panics {
		return cmp.Or(s.status, http.StatusInternalServerError)
	}
	return cmp.Or(s.status, http.StatusOK)
}

// note notes a status, if it is the first one that is not of an informational response.
func (s *statusWriter) note(status int) {
	if s.status == 0 && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		s.status = status
	}
}

// Unwrap is for [http.ResponseController].
func (s *statusWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (s *statusWriter) WriteHeader(status int) {
	s.ResponseWriter.WriteHeader(status)
	s.note(status)
}

// Write implements [io.Writer].
func (s *statusWriter) Write(b []byte) (int, error) {
	s.note(http.StatusOK)
	return s.ResponseWriter.Write(b)
}

// ReadFrom implements [io.ReaderFrom], with which a file is sent without copies.
func (s *statusWriter) ReadFrom(r io.Reader) (int64, error) {
	s.note(http.StatusOK)
	return io.Copy(s.ResponseWriter, r)
}

// Flush implements [http.Flusher].
func (s *statusWriter) Flush() { _ = s.FlushError() }

// FlushError is for [http.ResponseController].
func (s *statusWriter) FlushError() error {
	err := http.NewResponseController(s.ResponseWriter).Flush()
	if err == nil {
		s.note(http.StatusOK)
	}
	return err
}

// hijackableStatus is the statusWriter of a connection that can be hijacked.
type hijackableStatus struct{ *statusWriter }

// Hijack implements [http.Hijacker].
func (s hijackableStatus) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(s.ResponseWriter).Hijack()
	if err == nil {
		s.note(http.StatusSwitchingProtocols)
	}
	return conn, buffered, err
}

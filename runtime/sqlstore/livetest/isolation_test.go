package livetest

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

// isolated returns the server with a default isolation of its connections.
func (s server) isolated(level string) server {
	if s.protocol() == "mysql" {
		level = "'" + strings.ToUpper(strings.ReplaceAll(level, " ", "-")) + "'"
	}
	return s.with(s.word("isolation") + "=" + url.PathEscape(level))
}

// TestIsolation runs the contract at every isolation that connections may have by default.
func TestIsolation(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		for _, level := range []string{"read uncommitted", "read committed", "repeatable read", "serializable"} {
			t.Run(level, func(t *testing.T) {
				db := s.isolated(level).open(t)
				storetest.Run(t, func(t *testing.T, clock func() time.Time) runtime.Store { return s.store(t, db, clock) })
			})
		}
	})
}

package limithttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/limithttp"
)

type customer struct{ name string }

type outermost struct{}

// TestHandOn: a handler behind each kind of route has what the route's function has loaded, with HTTP/1.1 and HTTP/2, and
// middleware around the route has its request as it was.
func TestHandOn(t *testing.T) {
	w := newWorld()
	slots := w.limiter.Slots(&runtime.Policy{Name: "exports", Kind: runtime.InFlight, Slots: 1, Hold: time.Minute}, ada)
	limit := w.limiter.Limit(with(bucket(), func(p *runtime.Policy) { p.Rate, p.Capacity = 1, 2 }), ada)
	name := func(r *http.Request) string {
		c, ok := limithttp.Loaded[*customer](r.Context())
		if !ok {
			return "none"
		}
		return c.name
	}
	h := limithttp.New(w.limiter, limithttp.Options{
		Deny:    func(w http.ResponseWriter, r *http.Request, d *limithttp.Denial) { http.Error(w, name(r), d.Status) },
		OnError: func(r *http.Request, err error) { require.Equal(t, "ada", name(r), err) },
	})
	loads := func(item limiter.Item, err error) func(*http.Request) (limiter.Item, error) {
		return func(r *http.Request) (limiter.Item, error) {
			limithttp.HandOn(r, &customer{"eve"})
			limithttp.HandOn(r, &customer{"ada"})
			limithttp.HandOn(r, 7)
			return item, err
		}
	}
	respond := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		number, _ := limithttp.Loaded[int](r.Context())
		_, other := limithttp.Loaded[int64](r.Context())
		fmt.Fprint(w, name(r), number, other, r.Context().Value(outermost{}))
	})
	none := h.Limit(func(*http.Request) (limiter.Item, error) { return nil, nil })
	for _, row := range []struct {
		what    string
		handler http.Handler
		status  int
		body    string
	}{
		{"a limit, HTTP/1.1", h.Limit(loads(limit, nil)).Wrap(respond), 200, "ada7 false true"},
		{"a limit, HTTP/2", h.Limit(loads(limit, nil)).Wrap(respond), 200, "ada7 false true"},
		{"a denial", h.Limit(loads(limit, nil)).Wrap(respond), 429, "ada\n"},
		{"an error", h.Limit(loads(nil, limithttp.Error(503, errors.New("down")))).Wrap(respond), 503, "ada\n"},
		{"no limit", h.Limit(loads(nil, nil)).Wrap(respond), 200, "ada7 false true"},
		{"a slot", h.Limit(loads(slots.Item(), nil)).CountWhen(unauthorized).Wrap(respond), 200, "ada7 false true"},
		{"a route inside", h.Limit(loads(nil, nil)).Wrap(none.Wrap(respond)), 200, "ada7 false true"},
		{"a route around", none.Wrap(h.Limit(loads(nil, nil)).Wrap(respond)), 200, "ada7 false true"},
		{"nothing", none.Wrap(respond), 200, "none0 false true"},
	} {
		t.Run(row.what, func(t *testing.T) {
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r = r.WithContext(context.WithValue(r.Context(), outermost{}, true))
				row.handler.ServeHTTP(w, r)
				require.Equal(t, "none", name(r), "the request of the middleware around")
			}))
			server.EnableHTTP2 = row.what != "a limit, HTTP/1.1"
			server.StartTLS()
			defer server.Close()
			response, err := server.Client().Get(server.URL)
			require.NoError(t, err)
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.Equal(t, row.status, response.StatusCode)
			require.Equal(t, row.body, string(body))
			require.Equal(t, server.EnableHTTP2, response.ProtoMajor == 2)
		})
	}
}

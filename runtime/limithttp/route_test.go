package limithttp_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/limithttp"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

// serve sends a request to a handler, and returns the response.
func serve(h http.Handler) *httptest.ResponseRecorder {
	response := httptest.NewRecorder()
	h.ServeHTTP(response, httptest.NewRequest(http.MethodPost, "/", nil))
	return response
}

// taking returns a function for Binder.All.
func taking(items ...limiter.Item) func(*http.Request) ([]limiter.Item, error) {
	return func(*http.Request) ([]limiter.Item, error) { return items, nil }
}

// left returns the tokens that a limit has left.
func left(t *testing.T, l limiter.Limit) int64 {
	t.Helper()
	b, err := l.Peek(t.Context())
	require.NoError(t, err)
	return b.Remaining
}

func TestDeniedSecondLimitLeavesTheFirst(t *testing.T) {
	w := newWorld()
	first, second := w.limiter.Limit(with(bucket(), same), ada), w.limiter.Limit(with(window(), same), ada)
	h := limithttp.New(w.limiter, limithttp.Options{})
	group := h.Group(func(*http.Request) (limithttp.Take, error) {
		return func(ctx context.Context) (limiter.Decisions, error) {
			return w.limiter.Group(first, second.N(3)).Allow(ctx)
		}, nil
	})
	for name, route := range map[string]*limithttp.Route{
		"All": h.All(taking(first, second.N(3))), "Group": group,
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, first.Reset(t.Context()))
			require.NoError(t, second.Reset(t.Context()))
			handler := route.Wrap(http.NotFoundHandler())
			require.Equal(t, http.StatusNotFound, serve(handler).Code)
			require.EqualValues(t, 19, left(t, first))
			for range 3 {
				response := serve(handler)
				require.Equal(t, http.StatusTooManyRequests, response.Code)
				require.Contains(t, response.Body.String(), `"violated-policies":["signUp"]`)
			}
			require.EqualValues(t, 19, left(t, first))
			require.EqualValues(t, 2, left(t, second))
		})
	}
}

func TestFunctionThatFailsTakesNothing(t *testing.T) {
	w := newWorld()
	limit := w.limiter.Limit(with(bucket(), same), ada)
	h := limithttp.New(w.limiter, limithttp.Options{})
	route := h.Limit(func(*http.Request) (limiter.Item, error) { return limit, errors.New("no such user") })
	require.Equal(t, http.StatusBadRequest, serve(route.Wrap(http.NotFoundHandler())).Code)
	require.EqualValues(t, 20, left(t, limit))
}

// The writer is not wrapped, so that handlers can flush, hijack and send files as without a limit.
func TestHandlerGetsTheWriterOfTheServer(t *testing.T) {
	w := newWorld()
	h := limithttp.New(w.limiter, limithttp.Options{Legacy: limithttp.LegacySeconds})
	route := h.All(taking(w.limiter.Limit(with(bucket(), same), ada)))

	response := httptest.NewRecorder()
	route.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Same(t, response, w)
	})).ServeHTTP(response, httptest.NewRequest(http.MethodGet, "/", nil))

	server := httptest.NewServer(route.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		io.WriteString(w, "first\n")
		require.NoError(t, http.NewResponseController(w).Flush())
		conn, _, err := w.(http.Hijacker).Hijack()
		require.NoError(t, err)
		conn.Close()
	})))
	defer server.Close()
	got, err := http.Get(server.URL)
	require.NoError(t, err)
	defer got.Body.Close()
	require.Equal(t, http.StatusAccepted, got.StatusCode)
	require.NotEmpty(t, got.Header.Get("RateLimit"))
	line, err := bufio.NewReader(got.Body).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "first\n", line)
}

func TestErrorsOfTheProgramAreReported(t *testing.T) {
	w := newWorld()
	down, empty := limiter.New(downStore{}), &limiter.Limiter{}
	policy := with(bucket(), same)
	for name, row := range map[string]struct {
		limits   limithttp.Limits
		from     func(*http.Request) ([]limiter.Item, error)
		reported error
	}{
		"store":       {down, taking(down.Limit(policy, ada)), errDown},
		"mistake":     {w.limiter, taking(down.Limit(policy, ada)), runtime.ErrInvalidCall},
		"no store":    {empty, taking(empty.Limit(policy, ada)), runtime.ErrNoStore},
		"no plan":     {w.limiter, taking(w.limiter.Limit(runtime.PlanPolicies{{}, *policy}.For(0, ada))), runtime.ErrInvalidPlan},
		"bad count":   {w.limiter, taking(w.limiter.Limit(policy, ada).N(-1)), nil},
		"bad request": {w.limiter, func(*http.Request) ([]limiter.Item, error) { return nil, errors.New("no user") }, nil},
		"own status":  {w.limiter, func(*http.Request) ([]limiter.Item, error) { return nil, limithttp.Error(502, errDown) }, errDown},
		"client gone": {down, func(*http.Request) ([]limiter.Item, error) { return nil, limithttp.Error(503, context.Canceled) }, nil},
		"nil is no error": {w.limiter, func(*http.Request) ([]limiter.Item, error) {
			return []limiter.Item{w.limiter.Limit(policy, ada)}, limithttp.Error(500, nil)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var reported error
			options := limithttp.Options{OnError: func(r *http.Request, err error) {
				require.Equal(t, "/", r.URL.Path)
				reported = err
			}}
			serve(limithttp.New(row.limits, options).All(row.from).Wrap(http.NotFoundHandler()))
			if row.reported == nil {
				require.NoError(t, reported)
			} else {
				require.ErrorIs(t, reported, row.reported)
			}
		})
	}
}

// Without OnError, nothing fails silently, and a flood of failures is no flood of lines.
func TestErrorsAreLoggedOnceASecond(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	lines := func() (n int) {
		defer log.Reset()
		return strings.Count(log.String(), "\n")
	}

	down := limiter.New(downStore{})
	h := limithttp.New(down, limithttp.Options{})
	clock := storetest.NewClock()
	h.SetClock(clock.Now)
	closed := h.All(taking(down.Limit(with(bucket(), same), ada))).Wrap(http.NotFoundHandler())
	wrong := h.All(func(r *http.Request) ([]limiter.Item, error) {
		_, err := limithttp.ClientIP{}.Of(r)
		return nil, err
	}).Wrap(http.NotFoundHandler())
	bad := h.All(func(*http.Request) ([]limiter.Item, error) { return nil, errors.New("no user") }).Wrap(http.NotFoundHandler())

	require.Equal(t, http.StatusBadRequest, serve(bad).Code)
	require.Zero(t, lines(), "the request is at fault")
	require.Equal(t, http.StatusServiceUnavailable, serve(closed).Code)
	require.Contains(t, log.String(), errDown.Error())
	require.Equal(t, 1, lines())
	for range 3 {
		require.Equal(t, http.StatusServiceUnavailable, serve(closed).Code)
	}
	clock.Add(time.Second - 1)
	require.Equal(t, http.StatusInternalServerError, serve(wrong).Code)
	require.Zero(t, lines())
	clock.Add(1)
	require.Equal(t, http.StatusInternalServerError, serve(wrong).Code)
	require.Contains(t, log.String(), "set Direct of the ClientIP")
	require.Equal(t, 1, lines())
}

// The database that has the plan of a customer may be down: that is not the client's fault.
func TestFailuresInTheFunctionAreNotBadRequests(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	for _, err := range []error{refused, fmt.Errorf("the plan of 7: %w", refused), context.DeadlineExceeded, context.Canceled} {
		h := limithttp.New(newWorld().limiter, limithttp.Options{OnError: func(*http.Request, error) {}})
		route := h.Limit(func(*http.Request) (limiter.Item, error) { return nil, err })
		response := serve(route.Wrap(http.NotFoundHandler()))
		require.Equal(t, http.StatusServiceUnavailable, response.Code, err)
		require.Equal(t, "1", response.Header().Get("Retry-After"), err)
	}
}

func TestTakeWithoutDecisionsIsAMistake(t *testing.T) {
	h := limithttp.New(newWorld().limiter, limithttp.Options{OnError: func(*http.Request, error) {}})
	route := h.Group(func(*http.Request) (limithttp.Take, error) {
		return func(context.Context) (limiter.Decisions, error) { return limiter.Decisions{}, nil }, nil
	})
	require.Equal(t, http.StatusInternalServerError, serve(route.Wrap(http.NotFoundHandler())).Code)
}

// Staff and health checks, for example, have no limit. An error is answered all the same.
func TestRequestsWithoutALimitPass(t *testing.T) {
	h := limithttp.New(newWorld().limiter, limithttp.Options{Legacy: limithttp.LegacySeconds})
	for name, route := range map[string]func(error) *limithttp.Route{
		"Limit": func(err error) *limithttp.Route {
			return h.Limit(func(*http.Request) (limiter.Item, error) { return nil, err })
		},
		"All": func(err error) *limithttp.Route {
			return h.All(func(*http.Request) ([]limiter.Item, error) { return nil, err })
		},
		"Group": func(err error) *limithttp.Route {
			return h.Group(func(*http.Request) (limithttp.Take, error) { return nil, err }).CountWhen(func(int) bool { return false })
		},
	} {
		t.Run(name, func(t *testing.T) {
			passed := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusTeapot) })
			response := serve(route(nil).Wrap(passed))
			require.Equal(t, http.StatusTeapot, response.Code)
			require.Empty(t, response.Header())
			require.Equal(t, http.StatusBadRequest, serve(route(errors.New("no user")).Wrap(passed)).Code)
		})
	}
}

// A store of the user's own tests may return decisions that no request has made.
func TestDecisionsWithoutRequests(t *testing.T) {
	policy := with(bucket(), same)
	h := limithttp.New(nil, limithttp.Options{AdvertiseShared: true})
	route := h.Group(func(*http.Request) (limithttp.Take, error) {
		return func(context.Context) (limiter.Decisions, error) {
			d := runtime.Decision{Limit: policy.Name, Policy: policy, RetryAfter: time.Second}
			return limiter.Decisions{RetryAfter: time.Second, Each: []runtime.Decision{d}}, nil
		}, nil
	})
	response := serve(route.Wrap(http.NotFoundHandler()))
	require.Equal(t, http.StatusTooManyRequests, response.Code)
	require.Equal(t, `"sendMessage";r=0;t=1`, response.Header().Get("RateLimit"))
}

// A limit that the handler calls itself is answered as that of a route, but for the fields about the tokens left.
func TestDenyAnswersAsARoute(t *testing.T) {
	w := newWorld()
	limit := w.limiter.Limit(with(bucket(), same), ada)
	h := limithttp.New(w.limiter, limithttp.Options{})
	inside := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := limit.RequireN(r.Context(), 20); err != nil {
			h.Deny(w, r, err)
		}
	})
	returning := h.Handler(func(_ http.ResponseWriter, r *http.Request) error { return limit.RequireN(r.Context(), 20) })
	outside := h.All(taking(limit.N(20))).Wrap(http.NotFoundHandler())
	require.Equal(t, http.StatusOK, serve(inside).Code)
	for _, denying := range []http.Handler{inside, returning} {
		got, want := serve(denying), serve(outside)
		require.Equal(t, http.StatusTooManyRequests, got.Code)
		require.Equal(t, want.Body.String(), got.Body.String())
		require.NotEmpty(t, got.Header().Get("Retry-After"))
		for name := range want.Header() {
			if !strings.HasPrefix(name, "Ratelimit") {
				require.Equal(t, want.Header()[name], got.Header()[name], name)
			}
		}
	}
	require.NoError(t, limit.Reset(t.Context()))
	require.Equal(t, http.StatusOK, serve(returning).Code, "without an error, the function answers")
	for err, status := range map[error]int{
		errors.New("the disk is full"):                           http.StatusServiceUnavailable,
		limithttp.Error(http.StatusConflict, errors.New("sold")): http.StatusConflict,
		runtime.ErrExceedsCapacity:                               http.StatusBadRequest,
	} {
		response := httptest.NewRecorder()
		h.Deny(response, httptest.NewRequest(http.MethodPost, "/", nil), err)
		require.Equal(t, status, response.Code, err)
	}
}

// A denied reservation has its error in Err, and a Deny without an error is a mistake and no denial.
func TestDenyOfAReservation(t *testing.T) {
	w := newWorld()
	limit := w.limiter.Limit(with(bucket(), same), ada)
	var reported []error
	h := limithttp.New(w.limiter, limithttp.Options{OnError: func(_ *http.Request, err error) { reported = append(reported, err) }})
	require.NoError(t, limit.RequireN(t.Context(), 20))
	rs, err := w.limiter.ReserveAll(t.Context(), limit)
	require.NoError(t, err)
	require.ErrorIs(t, rs.Err(), runtime.ErrLimited)
	response := serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.Deny(w, r, rs.Err()) }))
	require.Equal(t, http.StatusTooManyRequests, response.Code)
	require.NotEmpty(t, response.Header().Get("Retry-After"))
	require.Empty(t, reported)
	response = serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.Deny(w, r, err) }))
	require.Equal(t, http.StatusInternalServerError, response.Code)
	require.Len(t, reported, 1)
	require.ErrorContains(t, reported[0], "pass the Err of a denied reservation")
}

// slow is a store that answers after the context of the request has ended.
type slow struct{ runtime.Store }

func (slow) Do(ctx context.Context, _ []runtime.Call) ([]runtime.Answer, error) {
	<-ctx.Done()
	return nil, errDown
}

// A client that ends its request early, or sets a short deadline, does not open the limit.
func TestEndOfTheRequestOpensNothing(t *testing.T) {
	limits := limiter.New(slow{})
	for _, onError := range runtime.OnErrors() {
		item := limits.Limit(with(bucket(), func(p *runtime.Policy) { p.OnError = onError }), ada)
		handler := limithttp.New(limits, limithttp.Options{}).All(taking(item)).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			t.Error("the handler runs")
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		response := httptest.NewRecorder()
		handler.ServeHTTP(response, httptest.NewRequest(http.MethodPost, "/", nil).WithContext(ctx))
		require.Equal(t, http.StatusServiceUnavailable, response.Code, "%v", onError)
	}
}

// A client that leaves out what it is counted by is at fault.
func TestEmptyKeyIsABadRequest(t *testing.T) {
	w := newWorld()
	item := w.limiter.Limit(with(bucket(), same), runtime.KeyOf(runtime.Hashed("")))
	require.Equal(t, http.StatusBadRequest, serve(limithttp.New(w.limiter, limithttp.Options{}).All(taking(item)).Wrap(http.NotFoundHandler())).Code)
}

// failingStore returns an error for all calls.
type failingStore struct{ err error }

func (f failingStore) Do(context.Context, []runtime.Call) ([]runtime.Answer, error) {
	return nil, f.err
}

// Package runtime decides the class of an error, also if it is wrapped, and if the limit is open: a mistake of the program
// is answered with 500, logged, and has no Retry-After.
func TestStatusFollowsTheClassOfAnError(t *testing.T) {
	open := bucket()
	open.OnError = runtime.FailOpen
	for _, row := range []struct {
		err        error
		status     int
		retryAfter string
	}{
		{&runtime.RegistrationError{}, 500, ""},
		{runtime.ErrForeignCounts, 500, ""},
		{runtime.ErrUnknownOverride, 500, ""},
		{fmt.Errorf("%w: %w", runtime.ErrOverridesUnread, runtime.ErrNoOverrides), 500, ""},
		{runtime.ErrNoTx, 500, ""},
		{runtime.ErrClosed, 500, ""},
		{runtime.ErrInvalidOverride, 400, ""},
		{fmt.Errorf("%w: %w", runtime.ErrOverridesUnread, errDown), 503, "1"},
		{errDown, 503, "1"},
	} {
		var reported error
		store := limiter.New(failingStore{fmt.Errorf("tenant 7: %w", row.err)})
		h := limithttp.New(store, limithttp.Options{OnError: func(_ *http.Request, err error) { reported = err }})
		closed := serve(h.All(taking(store.Limit(with(bucket(), same), ada))).Wrap(http.NotFoundHandler()))
		require.Equal(t, row.status, closed.Code, "%v", row.err)
		require.Equal(t, row.retryAfter, closed.Header().Get("Retry-After"), "%v", row.err)
		if row.status >= 500 {
			require.ErrorIs(t, reported, row.err)
		}
		want := row.status
		if want == http.StatusServiceUnavailable {
			want = http.StatusNotFound // the handler runs
		}
		require.Equal(t, want, serve(h.All(taking(store.Limit(&open, ada))).Wrap(http.NotFoundHandler())).Code, "open: %v", row.err)
		denied := httptest.NewRecorder()
		h.Deny(denied, httptest.NewRequest(http.MethodGet, "/", nil), row.err)
		require.Equal(t, row.status, denied.Code, "%v", row.err)
	}
}

// A function that returns a mistake of the program, such as the error of ParsePlan, is not at fault for a bad request.
func TestFunctionThatReturnsAMistake(t *testing.T) {
	var reported error
	h := limithttp.New(newWorld().limiter, limithttp.Options{OnError: func(_ *http.Request, err error) { reported = err }})
	failing := func(err error) int {
		return serve(h.All(func(*http.Request) ([]limiter.Item, error) { return nil, err }).Wrap(http.NotFoundHandler())).Code
	}
	require.Equal(t, http.StatusInternalServerError, failing(fmt.Errorf("plan %q: %w", "gold", runtime.ErrInvalidPlan)))
	require.ErrorIs(t, reported, runtime.ErrInvalidPlan)
	require.Equal(t, http.StatusBadRequest, failing(runtime.ErrEmptyKey))
	require.Equal(t, http.StatusTeapot, failing(limithttp.Error(http.StatusTeapot, runtime.ErrInvalidPlan)), "the status of the error counts")
}

// A limit around a router and around one of its routes is taken once a request, and has one item in the fields.
func TestLimitAroundTheRequestIsNotTakenAgain(t *testing.T) {
	w := newWorld()
	h := limithttp.New(w.limiter, limithttp.Options{Legacy: limithttp.LegacySeconds})
	send, window := w.limiter.Limit(with(bucket(), same), ada), w.limiter.Limit(with(window(), same), ada)
	group := func(items ...limiter.ReserveItem) *limithttp.Route {
		return h.Group(func(*http.Request) (limithttp.Take, error) {
			return func(ctx context.Context) (limiter.Decisions, error) { return w.limiter.Group(items...).Allow(ctx) }, nil
		})
	}
	inside := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {})
	for _, row := range []struct {
		name           string
		handler        http.Handler
		sends, windows int64
		policy, fields string
	}{
		{"the same", h.All(taking(send)).Wrap(h.All(taking(send)).Wrap(inside)), 1, 0,
			`"sendMessage";q=20;w=120`, `"sendMessage";r=19;t=114`},
		{"three times", h.All(taking(send)).Wrap(h.All(taking(send)).Wrap(group(send).Wrap(inside))), 1, 0,
			`"sendMessage";q=20;w=120`, `"sendMessage";r=19;t=114`},
		{"with another", h.All(taking(send)).Wrap(h.All(taking(window, send)).Wrap(inside)), 1, 1,
			`"sendMessage";q=20;w=120, "signUp";q=5;w=3600`, `"sendMessage";r=19;t=114, "signUp";r=4;t=3597`},
		{"a group", group(window, send).Wrap(group(send).Wrap(inside)), 1, 1,
			`"signUp";q=5;w=3600, "sendMessage";q=20;w=120`, `"signUp";r=4;t=3597, "sendMessage";r=19;t=114`},
		{"more tokens are taken", h.All(taking(send)).Wrap(h.All(taking(send.N(4))).Wrap(inside)), 5, 0,
			`"sendMessage";q=20;w=120`, `"sendMessage";r=15;t=90`},
		{"fewer are not", h.All(taking(send.N(4))).Wrap(h.All(taking(send)).Wrap(inside)), 4, 0,
			`"sendMessage";q=20;w=120`, `"sendMessage";r=16;t=96`},
		{"a check takes none", h.All(taking(send.Checked())).Wrap(h.All(taking(send)).Wrap(inside)), 1, 0,
			`"sendMessage";q=20;w=120`, `"sendMessage";r=19;t=114`},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.NoError(t, send.Reset(t.Context()))
			require.NoError(t, window.Reset(t.Context()))
			response := serve(row.handler)
			require.Equal(t, http.StatusOK, response.Code)
			require.EqualValues(t, 20-row.sends, left(t, send))
			require.EqualValues(t, 5-row.windows, left(t, window))
			require.Equal(t, []string{row.policy}, response.Header().Values("RateLimit-Policy"))
			require.Equal(t, []string{row.fields}, response.Header().Values("RateLimit"))
		})
	}
}

// A limit around the request is settled from within, once; another key, another store and what the handler itself takes are
// taken.
func TestWhatCountsAsTakenAgain(t *testing.T) {
	w := newWorld()
	h := limithttp.New(w.limiter, limithttp.Options{})
	send := w.limiter.Limit(with(bucket(), same), ada)
	other := newWorld()
	elsewhere, bob := other.limiter.Limit(with(bucket(), same), ada), w.limiter.Limit(with(bucket(), same), runtime.KeyOf(runtime.String("bob")))
	inner := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		require.NoError(t, send.Require(r.Context()))
		ds, err := w.limiter.All(r.Context(), send.N(2))
		require.NoError(t, err)
		require.True(t, ds.Allowed)
		require.NoError(t, limithttp.SettleLimit(r.Context(), "sendMessage", 5))
		require.ErrorIs(t, limithttp.SettleLimit(r.Context(), "sendMessage", 5), runtime.ErrNotReserved)
	})
	response := serve(h.All(taking(send)).Wrap(h.All(taking(send)).Wrap(inner)))
	require.Equal(t, http.StatusOK, response.Code)
	require.EqualValues(t, 20-1-2-5, left(t, send))

	next := limithttp.New(other.limiter, limithttp.Options{})
	response = serve(h.All(taking(bob)).Wrap(next.All(taking(elsewhere)).Wrap(h.All(taking(send)).Wrap(http.NotFoundHandler()))))
	require.EqualValues(t, 19, left(t, bob))
	require.EqualValues(t, 19, left(t, elsewhere))
	require.EqualValues(t, 11, left(t, send))
	require.Equal(t, []string{`"sendMessage";r=11;t=66`}, response.Header().Values("RateLimit"), "one item of a name: the one with the least left")
}

// A slot around the request is held once, and released by the route that has acquired it.
func TestSlotAroundTheRequestIsNotAcquiredAgain(t *testing.T) {
	l := limiter.New(&memstore.Store{})
	slots := l.Slots(&runtime.Policy{Name: "exports", Kind: runtime.InFlight, Slots: 1, Hold: time.Minute}, ada)
	h := limithttp.New(l, limithttp.Options{OnError: func(_ *http.Request, err error) { t.Error(err) }})
	route := h.InFlight(func(*http.Request) (limiter.SlotLimit, error) { return slots, nil })
	used := func() int64 {
		b, err := slots.Peek(t.Context())
		require.NoError(t, err)
		return b.Used
	}
	response := serve(route.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		route.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { require.EqualValues(t, 1, used()) })).ServeHTTP(w, r)
		require.EqualValues(t, 1, used(), "until the outer route returns")
	})))
	require.Equal(t, http.StatusOK, response.Code)
	require.Zero(t, used())
}

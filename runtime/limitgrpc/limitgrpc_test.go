package limitgrpc_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	limits "github.com/ratelimitgen/ratelimitgen/example/gen"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/limitgrpc"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

var (
	_ limitgrpc.Limits             = (*limits.Limits)(nil)
	_ limitgrpc.Limits             = (*limiter.Limiter)(nil)
	_ grpc.UnaryServerInterceptor  = (*limitgrpc.Interceptor)(nil).Unary
	_ grpc.StreamServerInterceptor = (*limitgrpc.Interceptor)(nil).Stream
)

// noon is the time of the stores, which stands still.
func noon() time.Time { return time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC) }

func newLimits() *limits.Limits { return limits.New(&memstore.Store{Clock: noon}) }

// service is the health service of grpc-go, whose calls can be given another handler.
type service struct {
	*health.Server
	check func(context.Context) error
	watch func(context.Context) error
}

func (s *service) Check(ctx context.Context, r *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if s.check != nil {
		if err := s.check(ctx); err != nil {
			return nil, err
		}
	}
	return s.Server.Check(ctx, r)
}

func (s *service) Watch(r *grpc_health_v1.HealthCheckRequest, stream grpc_health_v1.Health_WatchServer) error {
	if s.watch != nil {
		return s.watch(stream.Context())
	}
	return s.Server.Watch(r, stream)
}

// client serves the service behind an interceptor, and returns a client of it.
func client(t *testing.T, i *limitgrpc.Interceptor, s *service) grpc_health_v1.HealthClient {
	t.Helper()
	server := grpc.NewServer(grpc.UnaryInterceptor(i.Unary), grpc.StreamInterceptor(i.Stream))
	s.Server = health.NewServer()
	grpc_health_v1.RegisterHealthServer(server, s)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return grpc_health_v1.NewHealthClient(conn)
}

// check makes a unary call as a user, and returns the status that the client sees.
func check(t *testing.T, c grpc_health_v1.HealthClient, user string) *status.Status {
	t.Helper()
	_, err := c.Check(metadata.AppendToOutgoingContext(t.Context(), "user", user), &grpc_health_v1.HealthCheckRequest{})
	return status.Convert(err)
}

// watch opens a stream as a user, and returns the status of its first message.
func watch(t *testing.T, c grpc_health_v1.HealthClient, user string) *status.Status {
	t.Helper()
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(t.Context(), "user", user))
	defer cancel()
	stream, err := c.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
	require.NoError(t, err)
	_, err = stream.Recv()
	return status.Convert(err)
}

func userOf(ctx context.Context) string {
	return strings.Join(metadata.ValueFromIncomingContext(ctx, "user"), ",")
}

// failedLogins takes all 10 tokens of an hour for each call, so that the second one of a user is denied for an hour.
func failedLogins(b *limitgrpc.Binder, limit *limits.Limits) *limitgrpc.Interceptor {
	return b.Limit(func(ctx context.Context, c limitgrpc.Call) (limits.Item, error) {
		switch user := userOf(ctx); user {
		case "unknown":
			return nil, status.Error(codes.Unauthenticated, "no such user")
		case "broken":
			return nil, errors.New("secret")
		case "greedy":
			return limit.FailedLogins(user).N(11), nil
		case "admin":
			return nil, nil
		default:
			return limit.FailedLogins(user).N(10), nil
		}
	})
}

// What clients see of a denial: the code, the wait and the limit.
func TestDenial(t *testing.T) {
	limit := newLimits()
	b := limitgrpc.New(limit, limitgrpc.Options{})
	c := client(t, failedLogins(b, limit), &service{})
	for name, call := range map[string]func(*testing.T, grpc_health_v1.HealthClient, string) *status.Status{"unary": check, "stream": watch} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, codes.OK, call(t, c, name).Code())
			denied := call(t, c, name)
			assert.Equal(t, codes.ResourceExhausted, denied.Code())
			assert.Equal(t, "rate limited by failedLogins", denied.Message())
			require.Len(t, denied.Details(), 2)
			quota, ok := denied.Details()[0].(*errdetails.QuotaFailure)
			require.True(t, ok)
			want := &errdetails.QuotaFailure_Violation{Subject: "limit:failedLogins", QuotaId: "failedLogins", QuotaMetric: "rate", QuotaValue: 10}
			assert.True(t, proto.Equal(want, quota.Violations[0]), quota.Violations[0])
			info, ok := denied.Details()[1].(*errdetails.RetryInfo)
			require.True(t, ok)
			assert.Equal(t, time.Hour, info.RetryDelay.AsDuration())
			assert.Equal(t, codes.OK, call(t, c, "another "+name).Code())
		})
	}
	assert.Equal(t, codes.OK, check(t, c, "admin").Code())
	assert.Equal(t, codes.OK, check(t, c, "admin").Code(), "a call without a limit")
}

// A denial by several limits has the names of all of them, and the longest wait with the jitter.
func TestDenialBySeveralLimits(t *testing.T) {
	l := limiter.New(&memstore.Store{Clock: noon})
	policy := func(name string, period time.Duration) *runtime.Policy {
		return &runtime.Policy{Name: name, Kind: runtime.TokenBucket, Rate: 1, Capacity: 1, Period: period}
	}
	free, minute, hour := policy("free", time.Second), policy("minute", time.Minute), policy("hour", time.Hour)
	minute.Jitter = 3 * time.Hour
	key := func(name string) runtime.Key { return runtime.KeyOf(runtime.String(name)) }
	items := []limiter.Item{l.Limit(free, key("a")), l.Limit(minute, key("b")), l.Limit(hour, key("a")), l.Limit(hour, key("b"))}
	for _, used := range items[1:] {
		_, err := l.All(t.Context(), used)
		require.NoError(t, err)
	}
	want, err := l.All(t.Context(), items...)
	require.NoError(t, err)
	require.Greater(t, want.RetryIn(), time.Hour, "the jitter of the limit that denies for less")
	i := limitgrpc.New(l, limitgrpc.Options{}).All(func(context.Context, limitgrpc.Call) ([]limiter.Item, error) { return items, nil })
	denied := check(t, client(t, i, &service{}), "ada")
	assert.Equal(t, codes.ResourceExhausted, denied.Code())
	assert.Equal(t, "rate limited by minute, hour", denied.Message())
	assert.Equal(t, want.RetryIn(), waitOf(denied))
	var subjects []string
	for _, v := range denied.Details()[0].(*errdetails.QuotaFailure).Violations {
		subjects = append(subjects, v.Subject)
	}
	assert.Equal(t, []string{"limit:minute", "limit:hour"}, subjects)
}

// A Take without decisions is a mistake of the program, and no denial.
func TestNoDecisions(t *testing.T) {
	i := limitgrpc.New(newLimits(), limitgrpc.Options{}).Group(func(context.Context, limitgrpc.Call) (limitgrpc.Take, error) {
		return func(context.Context) (limiter.Decisions, error) { return limiter.Decisions{}, nil }, nil
	})
	got := check(t, client(t, i, &service{}), "ada")
	assert.Equal(t, codes.Internal, got.Code(), got)
	assert.Empty(t, got.Details())
}

// Each error has its code, and its text stays on the server.
func TestErrors(t *testing.T) {
	limit, noStore := newLimits(), limits.New(nil)
	down := limits.New(failing{errors.New("secret: the server has gone")})
	shut := limiter.New(&memstore.Store{})
	blocked := shut.Limit(&runtime.Policy{Name: "shut", Kind: runtime.TokenBucket, Rate: 1, Capacity: 1, Period: time.Hour, Mode: runtime.ModeBlock}, runtime.Key{})
	for name, row := range map[string]struct {
		limits   limitgrpc.Limits
		item     limits.Item
		err      error
		code     codes.Code
		wait     time.Duration
		reported bool
	}{
		"more than the capacity":  {limits: limit, item: limit.FailedLogins("a").N(11), code: codes.InvalidArgument},
		"an empty key":            {limits: limit, item: limit.FailedLogins(""), code: codes.InvalidArgument},
		"an error with a code":    {limits: limit, err: status.Error(codes.Unauthenticated, "who are you?"), code: codes.Unauthenticated},
		"an error without a code": {limits: limit, err: errors.New("secret"), code: codes.InvalidArgument},
		"the network fails": {limits: limit, err: &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("secret")}, code: codes.Unavailable,
			wait: time.Second, reported: true},
		"no store":               {limits: noStore, item: noStore.FailedLogins("a"), code: codes.Internal, reported: true},
		"another New's limit":    {limits: limit, item: noStore.FailedLogins("a"), code: codes.Internal, reported: true},
		"the store fails":        {limits: down, item: down.FailedLogins("a"), code: codes.Unavailable, wait: time.Second, reported: true},
		"a block without an end": {limits: shut, item: blocked, code: codes.ResourceExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			var reported []error
			b := limitgrpc.New(row.limits, limitgrpc.Options{OnError: func(_ context.Context, c limitgrpc.Call, err error) {
				assert.Equal(t, "/grpc.health.v1.Health/Check", c.Method)
				reported = append(reported, err)
			}})
			i := b.Limit(func(context.Context, limitgrpc.Call) (limits.Item, error) { return row.item, row.err })
			got := check(t, client(t, i, &service{}), "a")
			assert.Equal(t, row.code, got.Code(), got)
			assert.NotContains(t, got.Message(), "secret")
			assert.Equal(t, row.wait, waitOf(got))
			assert.Equal(t, row.reported, len(reported) == 1, reported)
		})
	}
}

// waitOf returns the delay of a RetryInfo, and 0 without one.
func waitOf(s *status.Status) time.Duration {
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			return info.RetryDelay.AsDuration()
		}
	}
	return 0
}

// failing is a store that fails.
type failing struct{ err error }

func (f failing) Do(context.Context, []runtime.Call) ([]runtime.Answer, error) { return nil, f.err }

// A call whose own deadline ends while the store hangs does not pass, although the limit has onError: open.
func TestDeadlineOfTheCallerOpensNothing(t *testing.T) {
	open := &runtime.Policy{Name: "open", Kind: runtime.TokenBucket, Rate: 1, Capacity: 1, Period: time.Hour, OnError: runtime.FailOpen}
	l := limiter.New(hanging{})
	i := limitgrpc.New(l, limitgrpc.Options{}).Limit(func(context.Context, limitgrpc.Call) (limiter.Item, error) {
		return l.Limit(open, runtime.Key{}), nil
	})
	for name, row := range map[string]struct {
		end  func(context.Context) (context.Context, context.CancelFunc)
		code codes.Code
	}{
		"deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Millisecond)
		}, codes.DeadlineExceeded},
		"cancelled": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx, cancel
		}, codes.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := row.end(t.Context())
			defer cancel()
			handler := func(context.Context, any) (any, error) {
				assert.Fail(t, "the handler has run")
				return nil, nil
			}
			_, err := i.Unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/a/B"}, handler)
			assert.Equal(t, row.code, status.Code(err))
		})
	}
}

// hanging is a store that answers nothing until the context ends.
type hanging struct{}

func (hanging) Do(ctx context.Context, _ []runtime.Call) ([]runtime.Answer, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// Handlers settle what a call has taken, and unary calls and streams have the context for it.
func TestSettle(t *testing.T) {
	limit := newLimits()
	i := limitgrpc.New(limit, limitgrpc.Options{}).All(func(ctx context.Context, c limitgrpc.Call) ([]limits.Item, error) {
		return []limits.Item{limit.FailedLogins(userOf(ctx)).N(6)}, nil
	})
	settle := func(ctx context.Context) error { return limiter.Settle(ctx, 2) }
	c := client(t, i, &service{check: settle, watch: settle})
	assert.Equal(t, codes.OK, check(t, c, "ada").Code())
	assert.Equal(t, "EOF", watch(t, c, "ada").Message())
	left, err := limit.FailedLogins("ada").Peek(t.Context())
	require.NoError(t, err)
	assert.Equal(t, int64(10-2-2), left.Remaining)
}

// A handler that calls a limit itself answers with Deny.
func TestDeny(t *testing.T) {
	limit := newLimits()
	b := limitgrpc.New(limit, limitgrpc.Options{OnError: func(context.Context, limitgrpc.Call, error) {}})
	none := b.All(func(context.Context, limitgrpc.Call) ([]limits.Item, error) { return nil, nil })
	c := client(t, none, &service{check: func(ctx context.Context) error {
		return b.Deny(ctx, limit.FailedLogins(userOf(ctx)).RequireN(ctx, 10))
	}})
	assert.Equal(t, codes.OK, check(t, c, "ada").Code())
	denied := check(t, c, "ada")
	assert.Equal(t, codes.ResourceExhausted, denied.Code())
	assert.Equal(t, time.Hour, waitOf(denied))
	assert.Equal(t, codes.Unavailable, status.Code(b.Deny(t.Context(), errors.New("secret"))))
	assert.Equal(t, codes.AlreadyExists, status.Code(b.Deny(t.Context(), status.Error(codes.AlreadyExists, "twice"))))
}

// A slot is held while a handler runs, of a call or of a stream, also if it panics.
func TestInFlight(t *testing.T) {
	p := &runtime.Policy{Name: "exports", Kind: runtime.InFlight, Slots: 1, Hold: time.Minute}
	l := limiter.New(&memstore.Store{})
	slots := l.Slots(p, runtime.Key{})
	b := limitgrpc.New(l, limitgrpc.Options{OnError: func(_ context.Context, _ limitgrpc.Call, err error) { t.Errorf("OnError: %v", err) }})
	i := b.InFlight(func(ctx context.Context, _ limitgrpc.Call) (limiter.SlotLimit, bool, error) {
		return slots, userOf(ctx) != "admin", nil
	})
	used := func() int64 {
		b, err := slots.Peek(t.Context())
		require.NoError(t, err)
		return b.Used
	}
	running, finish := make(chan struct{}), make(chan error)
	run := func(context.Context) error {
		running <- struct{}{}
		return <-finish
	}
	c := client(t, i, &service{check: run, watch: run})
	for name, call := range map[string]func(*testing.T, grpc_health_v1.HealthClient, string) *status.Status{"unary": check, "stream": watch} {
		t.Run(name, func(t *testing.T) {
			done := make(chan *status.Status)
			go func() { done <- call(t, c, "ada") }()
			<-running
			assert.EqualValues(t, 1, used())
			assert.Equal(t, codes.ResourceExhausted, call(t, c, "bob").Code())
			go func() { done <- call(t, c, "admin") }()
			<-running
			finish <- status.Error(codes.Aborted, "aborted")
			finish <- status.Error(codes.Aborted, "aborted")
			assert.Equal(t, codes.Aborted, (<-done).Code(), "the error of the handler")
			assert.Equal(t, codes.Aborted, (<-done).Code())
			assert.Zero(t, used())
		})
	}
	done := make(chan *status.Status)
	go func() { done <- check(t, c, "ada") }()
	<-running
	assert.Less(t, waitOf(check(t, c, "bob")), 30*time.Second, "as calls have held the slot lately, and not the hold")
	finish <- nil
	<-done
	assert.PanicsWithValue(t, "broken", func() {
		_, _ = i.Unary(t.Context(), nil, &grpc.UnaryServerInfo{}, func(context.Context, any) (any, error) { panic("broken") })
	})
	assert.Zero(t, used())
}

// A limit that stands around a call, by an interceptor before, is taken once.
func TestLimitAroundTheCallIsNotTakenAgain(t *testing.T) {
	limit := newLimits()
	i := limitgrpc.New(limit, limitgrpc.Options{}).Limit(func(context.Context, limitgrpc.Call) (limits.Item, error) {
		return limit.FailedLogins("ada").N(4), nil
	})
	info := &grpc.UnaryServerInfo{FullMethod: "/chat.v1.Chat/Send"}
	_, err := i.Unary(t.Context(), nil, info, func(ctx context.Context, request any) (any, error) {
		return i.Unary(ctx, request, info, func(ctx context.Context, _ any) (any, error) { return nil, limiter.Settle(ctx, 1) })
	})
	require.NoError(t, err)
	b, err := limit.FailedLogins("ada").Peek(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 9, b.Remaining)
}

// failingStore returns an error for all calls.
type failingStore struct{ err error }

func (f failingStore) Do(context.Context, []runtime.Call) ([]runtime.Answer, error) {
	return nil, f.err
}

// Package runtime decides the class of an error: a mistake of the program is INTERNAL and reported, and is not to be tried
// again.
func TestCodeFollowsTheClassOfAnError(t *testing.T) {
	for err, code := range map[error]codes.Code{
		&runtime.RegistrationError{}: codes.Internal, runtime.ErrUnknownOverride: codes.Internal, runtime.ErrNoOverrides: codes.Internal,
		runtime.ErrClosed: codes.Internal, runtime.ErrInvalidOverride: codes.InvalidArgument, errors.New("down"): codes.Unavailable,
	} {
		limit := limits.New(failingStore{err})
		var reported error
		b := limitgrpc.New(limit, limitgrpc.Options{OnError: func(_ context.Context, _ limitgrpc.Call, err error) { reported = err }})
		i := b.Limit(func(context.Context, limitgrpc.Call) (limits.Item, error) { return limit.FailedLogins("ada"), nil })
		_, failed := i.Unary(t.Context(), nil, &grpc.UnaryServerInfo{}, func(context.Context, any) (any, error) { return nil, nil })
		s := status.Convert(failed)
		require.Equal(t, code, s.Code(), "%v", err)
		require.Equal(t, code == codes.Unavailable, len(s.Details()) == 1, "RetryInfo of %v", err)
		if code != codes.InvalidArgument {
			require.ErrorIs(t, reported, err)
		}
	}
}

package frameworks

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	limits "github.com/ratelimitgen/ratelimitgen/example/gen"
	"github.com/ratelimitgen/ratelimitgen/runtime/limithttp"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

const procedure = "/grpc.health.v1.Health/Check"

type (
	checkRequest  = grpc_health_v1.HealthCheckRequest
	checkResponse = grpc_health_v1.HealthCheckResponse
)

// failedLogins is a limit of 10 per hour, of which requests take 10: the second one of a user is denied for an hour.
func failedLogins() *limits.Limits {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	return limits.New(&memstore.Store{Clock: func() time.Time { return now }})
}

// connectServer serves the procedure behind a limit, over HTTP/1.1 and HTTP/2.
func connectServer(t *testing.T, deny func(http.ResponseWriter, *http.Request, *limithttp.Denial)) *httptest.Server {
	t.Helper()
	limit := failedLogins()
	h := limithttp.New(limit, limithttp.Options{Deny: deny, OnError: func(*http.Request, error) {}})
	route := h.Limit(func(r *http.Request) (limits.Item, error) {
		switch user := r.Header.Get("User"); user {
		case "":
			return nil, limithttp.Error(http.StatusUnauthorized, errors.New("secret"))
		case "greedy":
			return limit.FailedLogins(user).N(11), nil
		case "down":
			return nil, limithttp.Error(http.StatusServiceUnavailable, errors.New("secret"))
		default:
			return limit.FailedLogins(user).N(10), nil
		}
	})
	handler := connect.NewUnaryHandler(procedure, func(context.Context, *connect.Request[checkRequest]) (*connect.Response[checkResponse], error) {
		return connect.NewResponse(&checkResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}), nil
	})
	mux := http.NewServeMux()
	mux.Handle(procedure, route.Wrap(handler))
	server := httptest.NewUnstartedServer(mux)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	return server
}

// http2Client is an HTTP client that speaks HTTP/2 without TLS, as gRPC needs.
func http2Client() *http.Client {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: &http.Transport{Protocols: protocols}}
}

func TestConnectClientsSeeResourceExhausted(t *testing.T) {
	for name, row := range map[string]struct {
		client  *http.Client
		options []connect.ClientOption
	}{
		"Connect":               {http.DefaultClient, nil},
		"Connect, JSON":         {http.DefaultClient, []connect.ClientOption{connect.WithProtoJSON()}},
		"Connect, GET":          {http.DefaultClient, []connect.ClientOption{connect.WithHTTPGet()}},
		"Connect, over HTTP/2":  {http2Client(), nil},
		"gRPC-Web":              {http.DefaultClient, []connect.ClientOption{connect.WithGRPCWeb()}},
		"gRPC-Web, over HTTP/2": {http2Client(), []connect.ClientOption{connect.WithGRPCWeb()}},
		"gRPC":                  {http2Client(), []connect.ClientOption{connect.WithGRPC()}},
	} {
		t.Run(name, func(t *testing.T) {
			server := connectServer(t, connectDeny())
			client := connect.NewClient[checkRequest, checkResponse](row.client, server.URL+procedure, row.options...)
			call := func(user string) *connect.Error {
				request := connect.NewRequest(&checkRequest{})
				request.Header().Set("User", user)
				response, err := client.CallUnary(t.Context(), request)
				if err == nil {
					require.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, response.Msg.Status)
					require.Equal(t, `"failedLogins";q=10;w=3600`, response.Header().Get("RateLimit-Policy"))
					return nil
				}
				var failed *connect.Error
				require.ErrorAs(t, err, &failed)
				require.NotContains(t, err.Error(), "secret")
				return failed
			}
			require.Nil(t, call("ada"))
			denied := call("ada")
			require.Equal(t, connect.CodeResourceExhausted, denied.Code())
			require.Len(t, denied.Details(), 1)
			info, err := denied.Details()[0].Value()
			require.NoError(t, err)
			require.Equal(t, time.Hour, info.(*errdetails.RetryInfo).RetryDelay.AsDuration())
			require.Equal(t, "3600", denied.Meta().Get("Retry-After"))

			require.Equal(t, connect.CodeUnauthenticated, call("").Code())
			require.Equal(t, connect.CodeInvalidArgument, call("greedy").Code())
			require.Equal(t, connect.CodeUnavailable, call("down").Code())
			require.Nil(t, call("grace"), "another key")
		})
	}
}

// Without the snippet, clients see another code: that is why it exists.
func TestConnectWithoutTheSnippet(t *testing.T) {
	server := connectServer(t, nil)
	client := connect.NewClient[checkRequest, checkResponse](http2Client(), server.URL+procedure, connect.WithGRPC())
	var err error
	for range 2 {
		request := connect.NewRequest(&checkRequest{})
		request.Header().Set("User", "ada")
		_, err = client.CallUnary(t.Context(), request)
	}
	require.Equal(t, connect.CodeUnavailable, connect.CodeOf(err))
}

// A request that is none of the protocols gets problem details.
func TestConnectDenyOfAnotherClient(t *testing.T) {
	server := connectServer(t, connectDeny())
	response, err := http.Post(server.URL+procedure, "text/plain", nil)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusUnauthorized, response.StatusCode)
	require.Equal(t, "application/problem+json", response.Header.Get("Content-Type"))
}

// checkGRPC calls the procedure with the client of grpc-go, and checks the codes and details that it sees.
func checkGRPC(t *testing.T, addr string) {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	client := grpc_health_v1.NewHealthClient(conn)
	call := func(user string) *status.Status {
		_, err := client.Check(metadata.AppendToOutgoingContext(t.Context(), "user", user), &checkRequest{})
		require.NotContains(t, status.Convert(err).Message(), "secret")
		return status.Convert(err)
	}
	require.Equal(t, codes.OK, call("ada").Code())
	denied := call("ada")
	require.Equal(t, codes.ResourceExhausted, denied.Code())
	require.Len(t, denied.Details(), 1)
	require.Equal(t, time.Hour, denied.Details()[0].(*errdetails.RetryInfo).RetryDelay.AsDuration())
	require.Equal(t, codes.Unauthenticated, call("").Code())
	require.Equal(t, codes.Unavailable, call("down").Code())
	require.Equal(t, codes.OK, call("grace").Code(), "another key")
}

func TestClientOfGRPCBehindConnect(t *testing.T) {
	checkGRPC(t, connectServer(t, connectDeny()).Listener.Addr().String())
}

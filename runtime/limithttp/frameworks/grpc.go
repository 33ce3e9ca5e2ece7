package frameworks

import (
	"context"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	limits "github.com/ratelimitgen/ratelimitgen/example/gen"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// grpcTake takes the tokens of a call, for example limit.SendMessage(userOf(ctx)).Allow(ctx). Its errors are those of the
// limits, or have a code of their own, such as status.Error(codes.Unauthenticated, "no user").
type grpcTake func(ctx context.Context, method string) (limits.Decision, error)

// unaryLimit and streamLimit are for grpc.UnaryInterceptor and grpc.StreamInterceptor.
func unaryLimit(take grpcTake) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if err := grpcError(take(ctx, info.FullMethod)); err != nil {
			return nil, err
		}
		return next(ctx, request)
	}
}

func streamLimit(take grpcTake) grpc.StreamServerInterceptor {
	return func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		if err := grpcError(take(stream.Context(), info.FullMethod)); err != nil {
			return err
		}
		return next(server, stream)
	}
}

// grpcError returns nil if the call may go on.
func grpcError(d limits.Decision, err error) error {
	if err != nil {
		if _, ok := status.FromError(err); ok {
			return err
		}
		// The text of the error is not for clients.
		return status.Error(codes.Unavailable, "the limit could not be checked")
	}
	if d.Allowed {
		return nil
	}
	denial := status.New(codes.ResourceExhausted, "rate limited by "+d.Limit)
	if d.RetryAfter != runtime.Never {
		info := &errdetails.RetryInfo{RetryDelay: durationpb.New(d.RetryIn())}
		if detailed, err := denial.WithDetails(info); err == nil {
			denial = detailed
		}
	}
	return denial.Err()
}

package limitgrpc

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/middleware"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// storeRetry is the RetryInfo if the store fails.
const storeRetry = time.Second

// Deny returns the error for the client if a limit that a handler has called itself returns err: a denial as Require returns
// it, or another error. The code of an error of something else is its own, or UNAVAILABLE. An err of nil is returned as nil.
//
//	if err := limit.Exports(org).Require(ctx); err != nil {
//		return nil, b.Deny(ctx, err)
//	}
func (b *Binder) Deny(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	method, _ := grpc.Method(ctx)
	return b.refuse(ctx, Call{Method: method}, err)
}

// refuse reports an error, and returns the one for the client.
func (b *Binder) refuse(ctx context.Context, c Call, err error) error {
	s := b.statusOf(ctx, err)
	if code := s.Code(); code == codes.Unavailable || code == codes.Internal {
		b.report(ctx, c, err)
	}
	return s.Err()
}

// report tells the program about an error that clients do not see.
func (b *Binder) report(ctx context.Context, c Call, err error) {
	switch {
	case b.options.OnError != nil:
		b.options.OnError(ctx, c, err)
	case b.log.Due(time.Now()):
		slog.ErrorContext(ctx, "limitgrpc: a call could not be decided, or its slots released", "error", err, "method", c.Method)
	}
}

// ofFunction returns an error of a function of the program with a code, unless it has one already or is one of the limits.
func ofFunction(err error) error {
	if _, ok := status.FromError(err); ok || runtime.OriginOf(err) != runtime.OriginStore || middleware.Failed(err) {
		return err
	}
	return status.Error(codes.InvalidArgument, "the call has no key for a limit")
}

// statusOf returns the status with which a call ends for an error. The texts of errors are not for clients.
func (b *Binder) statusOf(ctx context.Context, err error) *status.Status {
	if denied, ok := errors.AsType[*runtime.LimitedError](err); ok {
		return b.denial(limiter.Decisions{Each: []runtime.Decision{denied.Decision}})
	}
	if own, ok := status.FromError(err); ok {
		return own
	}
	switch runtime.OriginOf(err) {
	case runtime.OriginRequest:
		return status.New(codes.InvalidArgument, "the call asks for more than its limit allows at once, or has an empty key")
	case runtime.OriginProgram:
		return status.New(codes.Internal, "the limit could not be checked")
	}
	if ended := endOf(ctx); ended != nil {
		return status.FromContextError(ended)
	}
	return with(status.New(codes.Unavailable, "the limit could not be checked"), retryInfo(storeRetry))
}

// endOf returns the error of a context that has ended. A driver's own clock may be a moment ahead of the context's.
func endOf(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// denial returns the status of a denial, with a violation for each limit that denies, once each: its name is the quota_id,
// the [runtime.Decision.Reason] the quota_metric, and the capacity the quota_value, which is 0 for a blocked key.
func (b *Binder) denial(ds limiter.Decisions) *status.Status {
	var names []string
	quota := &errdetails.QuotaFailure{}
	for _, d := range ds.Each {
		if d.Allowed || slices.Contains(names, d.Limit) {
			continue
		}
		names = append(names, d.Limit)
		v := &errdetails.QuotaFailure_Violation{Subject: "limit:" + d.Limit, QuotaId: d.Limit, QuotaMetric: d.Reason()}
		if d.Policy != nil && d.BlockedFor == 0 {
			v.QuotaValue = d.Policy.Full()
		}
		quota.Violations = append(quota.Violations, v)
	}
	details := []protoadapt.MessageV1{quota}
	if wait := b.holds.RetryIn(ds.Each); wait != runtime.Never {
		details = append(details, retryInfo(wait))
	}
	return with(status.New(codes.ResourceExhausted, "rate limited by "+strings.Join(names, ", ")), details...)
}

func retryInfo(wait time.Duration) *errdetails.RetryInfo {
	return &errdetails.RetryInfo{RetryDelay: durationpb.New(wait)}
}

// with returns a status with details.
func with(s *status.Status, details ...protoadapt.MessageV1) *status.Status {
	detailed, err := s.WithDetails(details...)
	if err != nil {
		panic(err) // these messages can always be encoded
	}
	return detailed
}

package sqlstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
)

// Migrate creates the table if it does not exist. With policies, which should be the generated Policies, it also creates the
// table of overrides. That is the log of package operate too, without which an operator can change no count, so that it is
// created even if none of the policies has overrides. And it creates the table of registrations, and registers the limits
// there: the error wraps [runtime.ErrForeignCounts] if one of them belongs to another program, or is stored with another key
// while it has counts, blocks or overrides; the other limits are registered then too. Several processes may do so at once.
// If nothing is to be done, Migrate needs no right to do it.
func (s *Store) Migrate(ctx context.Context, policies ...*runtime.Policy) error {
	return s.migrate(ctx, policies, false)
}

// Adopt is Migrate for limits that take the place of others: their owner and the types of their keys replace those that are
// registered. Call it once when the package of the limits has moved, or has replaced another program's; that one is then
// refused. Counts, blocks and overrides stay stored under the texts of their keys, and apply to the keys with the same
// texts.
func (s *Store) Adopt(ctx context.Context, policies ...*runtime.Policy) error {
	return s.migrate(ctx, policies, true)
}

func (s *Store) migrate(ctx context.Context, policies []*runtime.Policy, adopt bool) error {
	if err := s.usable(); err != nil {
		return err
	}
	p := s.prepared
	_, err := conn.Maintain(ctx, p.Server, func(ctx context.Context) (any, error) {
		return nil, p.Server.CreateTable(ctx, p.Server.Table, p.Server.Dialect.Create)
	})
	if err != nil {
		return fmt.Errorf("create table %q: %w", p.Server.Table, err)
	}
	// The name of the table may be too long.
	needed := slices.ContainsFunc(policies, (*runtime.Policy).Overridable)
	if len(policies) == 0 || s.overrides.Err != nil && !needed {
		return nil
	}
	_, err = conn.Maintain(ctx, p.Server, func(ctx context.Context) (any, error) { return nil, s.overrides.CreateTable(ctx) })
	if err != nil {
		return err
	}
	return s.registry.Register(ctx, policies, adopt)
}

// Registrations returns what the store remembers of the limits whose counts it has, in the order of their names.
func (s *Store) Registrations(ctx context.Context) ([]runtime.Registration, error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	return s.registry.All(ctx)
}

// Ready returns nil if the store can decide calls: the table exists, meets the dialect's requirements, and can be read and
// written. It changes nothing. Call it when the program starts, so that a missing table or privilege is known before
// the first request.
//
// If one of the policies has overrides, or such a limit is in use, it also checks and reads the table of overrides and
// checks the right to add to it, and the error names the overrides in force that this program does not understand: pass the
// generated Policies. The rights to change and delete entries, which only Erase and Sweep need, are not checked. Numbers
// that are larger than limits.yaml allows by now are no error, because they are reduced to that.
//
// The last check is for blocks and overrides in force of limits that are not among the policies, or have no overrides any
// more: they have no effect, as after the rename of a limit without the SQL that "ratelimitgen diff" prints. The error is
// [runtime.ErrUnusedOverrides], and names each limit, their number and the remedy. Everything else is in order then, so a
// program may log this error and start. If a limit was removed on purpose, [Store.Forget] ends them, before the deploy or
// after it. Limits that are registered for another owner are left out. Without any policies, this is not checked.
//
// Limits must be registered, as Migrate does it, for this program and with the key that they have now. The error of one that
// is not wraps [runtime.ErrForeignCounts].
//
// The error names the problem, such as a column of another type, a missing privilege or a server that
// is a replica, and the remedy. On a Galera cluster, it is also about nodes whose clocks differ, as far as 10,000
// rows show that: a row that another node has written, or this one before its clock was set back.
func (s *Store) Ready(ctx context.Context, policies ...*runtime.Policy) error {
	if err := s.usable(); err != nil {
		return err
	}
	p := s.prepared
	_, err := conn.Maintain(ctx, p.Server, func(ctx context.Context) (any, error) {
		return nil, p.Server.WithRoom(ctx, func() error { return conn.Retry(ctx, p.CheckSetup) })
	})
	if err != nil {
		return err
	}
	if err := s.registry.Check(ctx, policies); err != nil {
		return err
	}
	switch {
	case len(policies) == 0 && !s.overrides.UsedBy(policies):
		return nil
	case !s.overrides.UsedBy(policies):
		// A program without overrides needs no privilege to read the log.
		if view, err := s.overrides.ReadLog(ctx); view != nil && err == nil {
			return view.Unused(policies, s.registry.OfOthers(ctx, policies)...)
		}
		return nil
	}
	_, err = conn.Maintain(ctx, p.Server, func(ctx context.Context) (any, error) {
		return nil, s.overrides.Check(ctx, policies, s.registry.OfOthers(ctx, policies))
	})
	return err
}

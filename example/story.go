package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	limits "github.com/ratelimitgen/ratelimitgen/example/gen"
)

// storyClock is a clock that only the story advances.
type storyClock struct{ now time.Time }

func (c *storyClock) Now() time.Time { return c.now }

// story calls the limits, and prints each call with its decision.
type story struct {
	ctx    context.Context
	out    io.Writer
	clock  *storyClock
	limits *limits.Limits
}

func (s *story) run() error {
	for day, scene := range []func() error{
		s.messages, s.signUps, s.logins, s.searches, s.plans, s.completions, s.reservations, s.partner, s.month, s.exports,
	} {
		// Each scene begins on a day of its own, at noon.
		s.clock.now = time.Date(2030, 1, 1+day, 12, 0, 0, 0, time.UTC)
		if err := scene(); err != nil {
			return err
		}
	}
	return nil
}

// title prints what a scene is about.
func (s *story) title(text string) {
	fmt.Fprintf(s.out, "\n%s: %s\n", s.clock.now.Format("2 January, 15:04"), text)
}

// line prints the time, a call and its result.
func (s *story) line(call string, result any) {
	fmt.Fprintf(s.out, "  %s  %-44s %v\n", s.clock.now.Format(time.TimeOnly), call, result)
}

func (s *story) advance(d time.Duration) { s.clock.now = s.clock.now.Add(d) }

func (s *story) messages() error {
	s.title("A user posts: 10 messages a minute, 20 at once after a pause.")
	ada := s.limits.SendMessage(42)
	d, err := ada.AllowN(s.ctx, 20)
	if err != nil {
		return err
	}
	s.line("SendMessage(42).AllowN(20)", d)
	if d, err = ada.Allow(s.ctx); err != nil {
		return err
	}
	s.line("SendMessage(42).Allow()", d)
	s.advance(d.RetryAfter)
	if d, err = ada.Allow(s.ctx); err != nil {
		return err
	}
	s.line("SendMessage(42).Allow()", d)
	if d, err = s.limits.SendMessage(43).Allow(s.ctx); err != nil {
		return err
	}
	s.line("SendMessage(43).Allow()", d)
	// More than the capacity can never pass: an error, and not a denial with a time to retry.
	_, err = ada.AllowN(s.ctx, 21)
	s.line("SendMessage(42).AllowN(21)", err)
	return nil
}

func (s *story) signUps() error {
	s.title("All sign-ups for the trial share one count: 100 an hour.")
	d, err := s.limits.FreeTrialSignUp().AllowN(s.ctx, 99)
	if err != nil {
		return err
	}
	s.line("FreeTrialSignUp().AllowN(99)", d)
	for range 2 {
		err := s.limits.FreeTrialSignUp().Require(s.ctx)
		var limited *limits.LimitedError // a denial; any other error means that the store could not decide
		if err != nil && !errors.As(err, &limited) {
			return err
		}
		s.line("FreeTrialSignUp().Require()", orOK(err))
	}
	return nil
}

func (s *story) logins() error {
	s.title("An attacker guesses a password: 10 wrong ones an hour, and a right one resets the count.")
	ada := s.limits.FailedLogins("ada")
	d, err := ada.AllowN(s.ctx, 9)
	if err != nil {
		return err
	}
	s.line(`9 wrong: FailedLogins("ada").AllowN(9)`, d)
	for range 2 {
		d, err := ada.Check(s.ctx)
		if err != nil {
			return err
		}
		s.line(`FailedLogins("ada").Check()`, d)
		if !d.Allowed {
			break
		}
		if d, err = ada.Allow(s.ctx); err != nil {
			return err
		}
		s.line(`wrong: FailedLogins("ada").Allow()`, d)
	}
	s.advance(6 * time.Minute)
	if d, err = ada.Check(s.ctx); err != nil {
		return err
	}
	s.line(`FailedLogins("ada").Check()`, d)
	s.line(`right: FailedLogins("ada").Reset()`, orOK(ada.Reset(s.ctx)))
	b, err := ada.Peek(s.ctx)
	s.line(`FailedLogins("ada").Peek()`, fmt.Sprintf("%d of %d left", b.Remaining, b.Capacity))
	return err
}

func (s *story) searches() error {
	s.title("A visitor searches: 5 in any minute, by a sliding window.")
	visitor := s.limits.Search(netip.MustParseAddr("2001:db8::1"))
	d, err := visitor.AllowN(s.ctx, 5)
	if err != nil {
		return err
	}
	s.line(`Search(2001:db8::1).AllowN(5)`, d)
	for range 3 {
		d, err := visitor.Allow(s.ctx)
		if err != nil {
			return err
		}
		s.line(`Search(2001:db8::1).Allow()`, d)
		s.advance(d.RetryAfter) // a retry passes exactly then; 0 if allowed
	}
	return nil
}

func (s *story) plans() error {
	s.title("An organization on the plan free upgrades to pro: what it has used stays used.")
	for _, call := range []struct {
		plan limits.Plan
		n    int64
	}{{limits.PlanFree, 100}, {limits.PlanFree, 1}, {limits.PlanPro, 1}, {limits.PlanPro, 899}, {limits.PlanFree, 1}, {limits.PlanEnterprise, 1000}} {
		d, err := s.limits.APICalls(7, call.plan).AllowN(s.ctx, call.n)
		if err != nil {
			return err
		}
		s.line(fmt.Sprintf("APICalls(7, %v).AllowN(%d)", call.plan, call.n), d)
	}
	return nil
}

func (s *story) completions() error {
	s.title("A team calls a model: a request and its tokens, both or neither, while our quota lasts.")
	blue := s.limits.Complete("blue", "large")
	for range 2 {
		d, err := blue.Allow(s.ctx, 30_000)
		if err != nil {
			return err
		}
		s.line(`Complete("blue", "large").Allow(30_000)`, d)
	}
	b, err := s.limits.LLMRequests("blue", "large").Peek(s.ctx)
	s.line(`LLMRequests("blue", "large").Peek()`, fmt.Sprintf("%d of %d left", b.Remaining, b.Capacity))
	return err
}

func (s *story) reservations() error {
	s.title("A team can wait: it reserves tokens, and settles for the number it used.")
	tokens := s.limits.LLMTokens("red", "large")
	if err := tokens.RequireN(s.ctx, 30_000); err != nil {
		return err
	}
	s.line(`LLMTokens("red", "large").RequireN(30_000)`, "ok")
	r, err := tokens.ReserveN(s.ctx, 30_000)
	if err != nil {
		return err
	}
	s.line(`LLMTokens("red", "large").ReserveN(30_000)`, r)
	s.advance(r.Delay()) // the tokens must not be used before they are due
	s.line("Settle(12_000)", orOK(r.Settle(s.ctx, 12_000)))
	b, err := tokens.Peek(s.ctx)
	s.line(`LLMTokens("red", "large").Peek()`, fmt.Sprintf("%d of %d left", b.Remaining, b.Capacity))
	return err
}

func (s *story) partner() error {
	s.title("A partner grants 5,000 calls a day from midnight, and 7,500 after a day without calls.")
	quota := s.limits.PartnerQuota()
	d, err := quota.AllowN(s.ctx, 7500)
	if err != nil {
		return err
	}
	s.line("PartnerQuota().AllowN(7500)", d)
	if d, err = quota.Allow(s.ctx); err != nil {
		return err
	}
	s.line("PartnerQuota().Allow()", d)
	s.advance(d.RetryAfter)
	if d, err = quota.Allow(s.ctx); err != nil {
		return err
	}
	s.line("PartnerQuota().Allow()", d)
	return nil
}

func (s *story) month() error {
	s.title("A partner has 100,000 reports in a month that begins on the 15th, at midnight in Berlin.")
	reports := s.limits.MonthlyReports("acme")
	for range 2 {
		d, err := reports.AllowN(s.ctx, 60_000)
		if err != nil {
			return err
		}
		s.line(`MonthlyReports("acme").AllowN(60_000)`, d)
	}
	b, err := reports.Peek(s.ctx)
	s.line(`MonthlyReports("acme").Peek()`, fmt.Sprintf("%d of %d left until %v", b.Remaining, b.Capacity, s.clock.now.Add(b.ResetAfter).Format("2 January, 15:04 MST")))
	return err
}

func (s *story) exports() error {
	s.title("Exports are heavy: none at once, each reserved, 30 seconds apart, at most 6 ahead.")
	for range 7 {
		r, err := s.limits.ExportData(7).Reserve(s.ctx)
		if err != nil {
			return err
		}
		s.line("ExportData(7).Reserve()", r)
	}
	return nil
}

// orOK returns err, or "ok" for nil.
func orOK(err error) any {
	if err == nil {
		return "ok"
	}
	return err
}

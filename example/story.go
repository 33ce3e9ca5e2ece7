package main

import (
	"cmp"
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

// story calls the limits, and prints each call with its decision. After an error, which means that the store could not
// decide, it prints no more.
type story struct {
	ctx    context.Context
	out    io.Writer
	clock  *storyClock
	limits *limits.Limits
	err    error
}

func (s *story) run() error {
	for day, scene := range []func(){
		s.messages, s.signUps, s.logins, s.searches, s.plans, s.completions, s.reservations, s.spending, s.partner, s.month, s.exports,
	} {
		// Each scene begins on a day of its own, at noon.
		s.clock.now = time.Date(2030, 1, 1+day, 12, 0, 0, 0, time.UTC)
		scene()
	}
	return s.err
}

// title prints what a scene is about.
func (s *story) title(text string) {
	if s.err == nil {
		fmt.Fprintf(s.out, "\n%s: %s\n", s.clock.now.Format("2 January, 15:04"), text)
	}
}

// line prints the time, a call and its result.
func (s *story) line(call string, result any) {
	if s.err == nil {
		fmt.Fprintf(s.out, "  %s  %-44s %v\n", s.clock.now.Format(time.TimeOnly), call, result)
	}
}

// show returns a function that prints a call with its result, which it returns, or keeps its error.
func show[T any](s *story, call string) func(T, error) T {
	return func(result T, err error) T {
		s.err = cmp.Or(s.err, err)
		s.line(call, result)
		return result
	}
}

// decision is show for the decision of one limit.
func (s *story) decision(call string) func(limits.Decision, error) limits.Decision {
	return show[limits.Decision](s, call)
}

// left prints the tokens left of a limit.
func (s *story) left(call, until string, b limits.Balance, err error) {
	s.err = cmp.Or(s.err, err)
	s.line(call, fmt.Sprintf("%d of %d left%s", b.Remaining, b.Capacity, until))
}

func (s *story) advance(d time.Duration) { s.clock.now = s.clock.now.Add(d) }

func (s *story) messages() {
	s.title("A user posts: 10 messages a minute, 20 at once after a pause.")
	ada := s.limits.SendMessage(42)
	s.decision("SendMessage(42).AllowN(20)")(ada.AllowN(s.ctx, 20))
	d := s.decision("SendMessage(42).Allow()")(ada.Allow(s.ctx))
	s.advance(d.RetryAfter)
	s.decision("SendMessage(42).Allow()")(ada.Allow(s.ctx))
	s.decision("SendMessage(43).Allow()")(s.limits.SendMessage(43).Allow(s.ctx))
	// More than the capacity can never pass: an error, and not a denial with a time to retry.
	_, err := ada.AllowN(s.ctx, 21)
	s.line("SendMessage(42).AllowN(21)", err)
}

func (s *story) signUps() {
	s.title("All sign-ups for the trial share one count: 100 an hour.")
	s.decision("FreeTrialSignUp().AllowN(99)")(s.limits.FreeTrialSignUp().AllowN(s.ctx, 99))
	for range 2 {
		err := s.limits.FreeTrialSignUp().Require(s.ctx)
		var limited *limits.LimitedError // a denial; any other error means that the store could not decide
		if err != nil && !errors.As(err, &limited) {
			s.err = cmp.Or(s.err, err)
		}
		s.line("FreeTrialSignUp().Require()", orOK(err))
	}
}

func (s *story) logins() {
	s.title("An attacker guesses a password: 10 wrong ones an hour, and a right one resets the count.")
	ada := s.limits.FailedLogins("ada")
	s.decision(`9 wrong: FailedLogins("ada").AllowN(9)`)(ada.AllowN(s.ctx, 9))
	s.decision(`wrong: FailedLogins("ada").Allow()`)(ada.Allow(s.ctx))
	s.decision(`not compared: FailedLogins("ada").Allow()`)(ada.Allow(s.ctx))
	s.advance(6 * time.Minute)
	s.decision(`right: FailedLogins("ada").Allow()`)(ada.Allow(s.ctx)) // before the password is compared
	s.line(`right: FailedLogins("ada").Reset()`, orOK(ada.Reset(s.ctx)))
	b, err := ada.Peek(s.ctx)
	s.left(`FailedLogins("ada").Peek()`, "", b, err)
}

func (s *story) searches() {
	s.title("A visitor searches: 5 in any minute, by a sliding window.")
	visitor := s.limits.Search(netip.MustParseAddr("2001:db8::1"))
	s.decision(`Search(2001:db8::1).AllowN(5)`)(visitor.AllowN(s.ctx, 5))
	for range 3 {
		d := s.decision(`Search(2001:db8::1).Allow()`)(visitor.Allow(s.ctx))
		s.advance(d.RetryAfter) // a retry passes exactly then; 0 if allowed
	}
}

func (s *story) plans() {
	s.title("An organization on the plan free upgrades to pro: what it has used stays used.")
	for _, call := range []struct {
		plan limits.Plan
		n    int64
	}{{limits.PlanFree, 100}, {limits.PlanFree, 1}, {limits.PlanPro, 1}, {limits.PlanPro, 899}, {limits.PlanFree, 1}, {limits.PlanEnterprise, 1000}} {
		s.decision(fmt.Sprintf("APICalls(7, %v).AllowN(%d)", call.plan, call.n))(s.limits.APICalls(7, call.plan).AllowN(s.ctx, call.n))
	}
}

func (s *story) completions() {
	s.title("A team calls a model: a request and its tokens, both or neither, while our quota lasts.")
	blue := s.limits.Complete("blue", "large")
	for range 2 {
		show[limits.CompleteDecisions](s, `Complete("blue", "large").Allow(30_000)`)(blue.Allow(s.ctx, 30_000))
	}
	b, err := s.limits.LLMRequests("blue", "large").Peek(s.ctx)
	s.left(`LLMRequests("blue", "large").Peek()`, "", b, err)
}

func (s *story) reservations() {
	s.title("A team can wait: it reserves tokens, and settles for the number it used.")
	tokens := s.limits.LLMTokens("red", "large")
	s.line(`LLMTokens("red", "large").RequireN(30_000)`, orOK(tokens.RequireN(s.ctx, 30_000)))
	r := show[*limits.Reservation](s, `LLMTokens("red", "large").ReserveN(30_000)`)(tokens.ReserveN(s.ctx, 30_000))
	if s.err != nil {
		return
	}
	s.advance(r.Delay()) // the tokens must not be used before they are due
	s.line("Settle(12_000)", orOK(r.Settle(s.ctx, 12_000)))
	b, err := tokens.Peek(s.ctx)
	s.left(`LLMTokens("red", "large").Peek()`, "", b, err)
}

func (s *story) spending() {
	s.title("A team spends $50 a month on models: it reserves what an answer can cost, and settles for what it has used.")
	red := s.limits.LLMSpend("red")
	s.decision(`LLMSpend("red").Allow(Input: 2_700)`)(red.Allow(s.ctx, limits.LLMSpendUsage{Input: 2_700}))
	r := show[*limits.PricedReservation[limits.LLMSpendUsage]](s, `LLMSpend("red").Reserve(Output: 3_300_000)`)(red.Reserve(s.ctx, limits.LLMSpendUsage{Output: 3_300_000}))
	if s.err != nil {
		return
	}
	s.decision(`LLMSpend("red").Check(Output: 100_000)`)(red.Check(s.ctx, limits.LLMSpendUsage{Output: 100_000}))
	s.line("Settle(Cached: 1_001, Output: 400_000)",
		orOK(r.Settle(s.ctx, limits.LLMSpendUsage{Cached: 1_001, Output: 400_000})))
	b, err := red.Peek(s.ctx)
	s.left(`LLMSpend("red").Peek()`, "", b, err)
}

func (s *story) partner() {
	s.title("A partner grants 5,000 calls a day from midnight, and 7,500 after a day without calls.")
	quota := s.limits.PartnerQuota()
	s.decision("PartnerQuota().AllowN(7500)")(quota.AllowN(s.ctx, 7500))
	d := s.decision("PartnerQuota().Allow()")(quota.Allow(s.ctx))
	s.advance(d.RetryAfter)
	s.decision("PartnerQuota().Allow()")(quota.Allow(s.ctx))
}

func (s *story) month() {
	s.title("A partner has 100,000 reports in a month that begins on the 15th, at midnight in Berlin.")
	reports := s.limits.MonthlyReports("acme")
	for range 2 {
		s.decision(`MonthlyReports("acme").AllowN(60_000)`)(reports.AllowN(s.ctx, 60_000))
	}
	b, err := reports.Peek(s.ctx)
	s.left(`MonthlyReports("acme").Peek()`, " until "+s.clock.now.Add(b.ResetAfter).Format("2 January, 15:04 MST"), b, err)
}

func (s *story) exports() {
	s.title("Exports are heavy: none at once, each reserved, 30 seconds apart, at most 6 ahead.")
	for range 7 {
		show[*limits.Reservation](s, "ExportData(7).Reserve()")(s.limits.ExportData(7).Reserve(s.ctx))
	}
}

// orOK returns err, or "ok" for nil.
func orOK(err error) any {
	if err == nil {
		return "ok"
	}
	return err
}

package gen

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// configuration is what public applications have in the configuration of their limiters, in other words and with other
// numbers, and the same in limits.yaml.
type configuration struct {
	app string
	// limits is the file below its package.
	limits string
	lines  []line
}

// line is one rule of a configuration.
type line struct {
	says string
	// limit has the rule, whose decisions are theirs; "" for a rule that code says, which by names.
	limit  string
	theirs func() rule
	by     string
	// later is how many milliseconds later than theirs a request is allowed at most, and nearly why; 0 and "" if the decisions
	// are equal.
	later  int64
	nearly string
}

// Rules that are Go and not limits. The program of TestEverydayWishes does each of these.
const (
	noLimit      = "the function of the route returns no limit"
	byMode       = "limiter.Mode, by a variable of the environment"
	byPlan       = "the plan, by a variable of the environment"
	byNumbers    = "the numbers, by a variable of the environment: rate {at most: N}"
	byExceptions = "exceptions, with a reason"
)

// every is windows at multiples of the period.
func every(limit, period int64, name, says string) line {
	return line{says: says, limit: name, theirs: func() rule { return aligned(limit, period) }}
}

// bucketOf is a bucket of a number of requests, from which so many drain in a time.
func bucketOf(rate, per, burst int64, name, says string) line {
	return line{says: says, limit: name, theirs: func() rule { return leaky(rate, per, burst) }}
}

// leaky is a bucket that drains rate requests in per milliseconds. It has burst requests at most.
func leaky(rate, per, burst int64) rule {
	level, last := int64(0), int64(0)
	return func(now int64) (bool, func()) {
		next := max(0, level-rate*(now-last)) + per
		return next <= burst*per, func() { level, last = next, now }
	}
}

// banned allows some requests in a window, and denies all for a time from the last of them.
func banned(limit, window, ban int64) rule {
	until, count := int64(0), map[int64]int64{}
	return func(now int64) (bool, func()) {
		return now >= until, func() {
			if count[now/window]++; count[now/window] >= limit {
				until, count[now/window] = now+ban, 0
			}
		}
	}
}

const aBan = "the ban begins with the first request that is too many, not with the last one before"

var configurations = []configuration{
	{"a social network", `
defaults: {kind: fixed window}
limits:
  api: {key: {user: int64}, rate: 1_200, period: 5m, start: 0s}
  apiOfToken: {key: {token: int64}, rate: 240, period: 5m, start: 0s}
  apiOfVisitor: {key: {addr: netip.Addr/64}, rate: 240, period: 5m, start: 0s}
  media: {key: {user: int64}, rate: 20, period: 30m, start: 0s}
  proxy: {key: {addr: netip.Addr/64}, rate: 20, period: 10m, start: 0s}
  signUp: {key: {addr: netip.Addr/64}, rate: 4, period: 30m, start: 0s}
  pages: {key: {user: int64}, rate: 240, period: 15m, start: 0s}
  pagesOfVisitor: {key: {addr: netip.Addr/64}, rate: 240, period: 15m, start: 0s}
  deletions: {key: {user: int64}, rate: 20, period: 30m, start: 0s}
  attempts: {key: {addr: netip.Addr/64}, rate: 20, period: 5m, start: 0s}
  resetsOfAddress: {key: {addr: netip.Addr/64}, rate: 20, period: 5m, start: 0s}
  resets: {key: {email: folded string}, rate: 4, period: 30m, start: 0s}
  confirmationsOfAddress: {key: {addr: netip.Addr/64}, rate: 20, period: 5m, start: 0s}
  confirmations: {key: {who: [user: int64, email: folded string]}, rate: 4, period: 30m, start: 0s}
  loginsOfAddress: {key: {addr: netip.Addr/64}, rate: 20, period: 5m, start: 0s}
  logins: {key: {who: [user: int64, email: folded string]}, rate: 20, period: 1h, start: 0s}
  passwords: {key: {user: int64}, rate: 8, period: 10m, start: 0s}
`, []line{
		{says: "requests of this machine pass", by: noLimit},
		{says: "addresses of a table in the database are refused", by: "a check of the table in the function of the route, or overrides: blocks"},
		every(1_200, 5*minute, "api", "calls of a user"),
		every(240, 5*minute, "apiOfToken", "calls with one token"),
		every(240, 5*minute, "apiOfVisitor", "calls of an address without a user, of IPv6 by 64 bits"),
		every(20, 30*minute, "media", "uploads of a user"),
		every(20, 10*minute, "proxy", "pictures of an address"),
		every(4, 30*minute, "signUp", "sign-ups of an address"),
		every(240, 15*minute, "pages", "pages of a user"),
		every(240, 15*minute, "pagesOfVisitor", "pages of an address without a user"),
		every(20, 30*minute, "deletions", "deletions of a user"),
		every(20, 5*minute, "attempts", "attempts to sign up of an address"),
		every(20, 5*minute, "resetsOfAddress", "password resets of an address"),
		every(4, 30*minute, "resets", "password resets of an e-mail address"),
		every(20, 5*minute, "confirmationsOfAddress", "confirmations of an address"),
		every(4, 30*minute, "confirmations", "confirmations of an e-mail address, or of a user who is signed in"),
		every(20, 5*minute, "loginsOfAddress", "logins of an address"),
		every(20, hour, "logins", "logins of an e-mail address, or of a user whose second factor is missing"),
		every(8, 10*minute, "passwords", "password changes of a user"),
	}},
	{"a help desk", `
defaults: {kind: fixed window}
limits:
  requests: {key: {addr: netip.Addr}, rate: {at most: 10_000}, period: 1m, start: 0s}
  adminsOfAddress: {key: {addr: netip.Addr}, rate: 4, period: 5m, start: 0s}
  admins: {key: {email: folded string}, rate: 4, period: 15m, start: 0s}
  loginsOfAddress: {key: {addr: netip.Addr}, rate: 4, period: 5m, start: 0s}
  logins: {key: {email: folded string}, rate: 8, period: 15m, start: 0s}
  resetsOfAddress: {key: {addr: netip.Addr}, rate: 4, period: 30m, start: 0s}
  resets: {key: {email: folded string}, rate: 4, period: 1h, start: 0s}
  confirmations: {key: {addr: netip.Addr}, rate: 4, period: 30m, start: 0s}
  accounts: {key: {addr: netip.Addr}, rate: 4, period: 30m, start: 0s}
  conversations: {key: {addr: netip.Addr}, rate: 5, period: 12h, start: 0s}
  contacts: {key: {addr: netip.Addr}, rate: 50, period: 1h, start: 0s}
  sessions: {key: {addr: netip.Addr}, rate: 4, period: 1h, start: 0s}
  transcripts: {key: {account: int64}, rate: 25, period: 1h, start: 0s}
  uploads: {key: {account: int64}, rate: 50, period: 1h, start: 0s}
  searches: {key: {account: int64}, rate: {at most: 1_000}, period: 1m, start: 0s}
  reportsOfUser: {key: {who: [user: string, token: hashed string], account: int64}, rate: {at most: 1_000}, period: 1m, start: 0s}
  reports: {key: {account: int64}, rate: {at most: 10_000}, period: 1m, start: 0s}
`, []line{
		{says: "off, but in production", by: byMode},
		{says: "requests of an address: a number of the environment", by: byNumbers},
		every(4, 5*minute, "adminsOfAddress", "logins of administrators from an address"),
		every(4, 15*minute, "admins", "logins of an administrator, without regard to case"),
		every(4, 5*minute, "loginsOfAddress", "logins from an address"),
		every(8, 15*minute, "logins", "logins with an e-mail address, without regard to case"),
		every(4, 30*minute, "resetsOfAddress", "password resets from an address"),
		every(4, hour, "resets", "password resets of an e-mail address, without regard to case"),
		every(4, 30*minute, "confirmations", "confirmations from an address"),
		every(4, 30*minute, "accounts", "new accounts from an address"),
		{says: "the next three only if a variable of the environment says so", by: noLimit},
		every(5, 12*hour, "conversations", "conversations from an address"),
		every(50, hour, "contacts", "contacts from an address"),
		every(4, hour, "sessions", "sessions from an address"),
		every(25, hour, "transcripts", "transcripts of an account"),
		every(50, hour, "uploads", "uploads of an account"),
		{says: "searches of an account: a number of the environment", by: byNumbers},
		{says: "reports of a user or a token, and an account: a number of the environment", by: byNumbers},
		{says: "reports of an account: a number of the environment", by: byNumbers},
	}},
	{"a community of writers", `
defaults: {kind: fixed window}
limits:
  search: {key: {addr: netip.Addr}, rate: 4, period: 1s, start: 0s}
  reads: {key: {addr: netip.Addr}, rate: 2, period: 1s, start: 0s}
  resets: {key: {addr: netip.Addr}, rate: 2, period: 1s, start: 0s}
  writes: {key: {addr: netip.Addr, apiKey: hashed string}, rate: 1, period: 1s, start: 0s}
`, []line{
		{says: "keys of administrators are exempt", by: noLimit},
		every(4, second, "search", "searches of an address"),
		every(2, second, "reads", "calls of an address"),
		every(2, second, "resets", "password resets of an address"),
		every(1, second, "writes", "writes of an address, or of an address with a key"),
	}},
	{"a site of links", `
defaults: {kind: fixed window}
limits:
  perSecond: {key: {addr: netip.Addr}, rate: 4, period: 1s, start: 0s}
  perMinute: {key: {addr: netip.Addr}, rate: 50, period: 1m, start: 0s}
  profiles: {key: {addr: netip.Addr}, rate: 25, period: 5m, start: 0s}
  logins: {key: {addr: netip.Addr}, rate: 3, period: 1m, start: 0s}
`, []line{
		{says: "requests of this machine pass", by: noLimit},
		every(4, second, "perSecond", "requests of an address"),
		every(50, minute, "perMinute", "requests of an address"),
		every(25, 5*minute, "profiles", "profiles that an address reads"),
		every(3, minute, "logins", "logins of an address"),
	}},
	{"a login of the state", `
defaults: {kind: fixed window}
limits:
  requests: {key: {addr: netip.Addr}, rate: {at most: 10_000}, period: 5m, start: 0s}
  logins1: {key: {addr: netip.Addr}, rate: 10, period: 8s, start: 0s}
  logins2: {key: {addr: netip.Addr}, rate: 20, period: 64s, start: 0s}
  logins3: {key: {addr: netip.Addr}, rate: 30, period: 512s, start: 0s}
  logins4: {key: {addr: netip.Addr}, rate: 40, period: 4096s, start: 0s}
  logins5: {key: {addr: netip.Addr}, rate: 50, period: 32768s, start: 0s}
  codes: {key: {phone: hashed string}, rate: 8, period: 5m, start: 0s, penalty: 20m}
`, []line{
		{says: "requests of this machine pass, but in production", by: noLimit},
		{says: "files of the site are exempt", by: noLimit},
		{says: "requests of an address: a number of the environment", by: byNumbers},
		every(10, 8*second, "logins1", "logins of an address, first level"),
		every(20, 64*second, "logins2", "second level"),
		every(30, 512*second, "logins3", "third level"),
		every(40, 4096*second, "logins4", "fourth level"),
		every(50, 32768*second, "logins5", "fifth level"),
		{says: "codes to a telephone, then a ban", limit: "codes", nearly: aBan},
	}},
	{"a dashboard of the state", `
defaults: {kind: fixed window}
limits:
  requests: {key: {addr: netip.Addr}, rate: 80, period: 1m, start: 0s}
  logins: {key: {addr: netip.Addr}, rate: 4, period: 20s, start: 0s}
  tokens: {key: {addr: netip.Addr}, rate: 4, period: 1m, start: 0s, penalty: 1h}
`, []line{
		every(80, minute, "requests", "requests of an address"),
		{says: "in tests, this machine is exempt", by: noLimit},
		every(4, 20*second, "logins", "logins of an address"),
		{says: "requests with a token, then a ban", limit: "tokens", nearly: aBan},
	}},
	{"a calendar of gifts", `
limits:
  requests: {key: {addr: netip.Addr}, kind: fixed window, rate: {at most: 10_000}, period: 1m, start: 0s}
`, []line{
		{says: "on only if a variable of the environment is set", by: byMode},
		{says: "requests of an address: a number of the environment", by: byNumbers},
		{says: "files of the site are exempt", by: noLimit},
	}},
	{"a city's forum", `
limits:
  requests: {key: {addr: netip.Addr}, kind: fixed window, rate: 100, period: 1m, start: 0s}
`, []line{
		{says: "requests with a secret parameter pass, for load tests", by: noLimit},
		every(100, minute, "requests", "requests of an address"),
	}},
	{"a chat server", `
defaults: {kind: token bucket}
limits:
  messages: {key: {user: string}, rate: 1, period: 5s, capacity: 10}
  registrations: {key: {addr: netip.Addr}, rate: 17, period: 100s, capacity: 3}
  loginsOfAddress: {key: {addr: netip.Addr}, rate: 3, period: 1000s, capacity: 5}
  logins: {key: {user: string}, rate: 3, period: 1000s, capacity: 5}
  failures: {key: {user: string}, rate: 17, period: 100s, capacity: 3}
  redactions: {key: {admin: string}, rate: 1, period: 1s, capacity: 50}
  joins: {key: {user: string}, rate: 1, period: 10s, capacity: 10}
  remoteJoins: {key: {user: string}, rate: 1, period: 100s, capacity: 10}
  proofs: {key: {contact: hashed folded string}, rate: 3, period: 1000s, capacity: 5}
  invitesToRoom: {key: {room: string}, rate: 3, period: 10s, capacity: 10}
  invites: {key: {user: string}, rate: 3, period: 1000s, capacity: 5}
`, []line{
		bucketOf(1, 5*second, 10, "messages", "messages of a user: 0.2 a second, a burst of 10"),
		bucketOf(17, 100*second, 3, "registrations", "registrations of an address: 0.17 a second"),
		bucketOf(3, 1000*second, 5, "loginsOfAddress", "logins of an address: 0.003 a second"),
		bucketOf(3, 1000*second, 5, "logins", "logins of an account"),
		bucketOf(17, 100*second, 3, "failures", "failed logins of an account: Check before, Allow after a failure; or CountWhen"),
		bucketOf(1, second, 50, "redactions", "what an administrator redacts"),
		bucketOf(1, 10*second, 10, "joins", "rooms of this server that a user joins"),
		bucketOf(1, 100*second, 10, "remoteJoins", "rooms of other servers"),
		bucketOf(3, 1000*second, 5, "proofs", "proofs of an e-mail address"),
		bucketOf(3, 10*second, 10, "invitesToRoom", "invitations to a room"),
		bucketOf(3, 1000*second, 5, "invites", "invitations of a user"),
	}},
	{"an API in Python", `
defaults: {kind: sliding window}
limits:
  visitors: {key: {addr: netip.Addr}, precise: true, rate: 50, period: 1m}
  users: {key: {user: int64}, precise: true, rate: 200, period: 1m}
  codes: {key: {addr: netip.Addr}, precise: true, rate: 4, period: 1m}
  uploads: {key: {user: int64}, precise: true, rate: 25, period: 1h}
`, []line{
		{says: "visitors", limit: "visitors", theirs: func() rule { return history(50, minute) }},
		{says: "users", limit: "users", theirs: func() rule { return history(200, minute) }},
		{says: "one-time codes", limit: "codes", theirs: func() rule { return history(4, minute) }},
		{says: "uploads", limit: "uploads", theirs: func() rule { return history(25, hour) }},
		{says: "staff has ten times as many", by: "plans, or numbers of the caller"},
		{says: "none in tests and load tests", by: byMode},
	}},
	{"a mesh of services", `
plans: [prod, staging, dev]
defaults: {kind: fixed window}
limits:
  calls: {key: {namespace: string}, rate: {prod: 800, staging: 400, dev: 80}, period: 1m, start: 0s}
  product: {rate: 1, period: 1m, start: 0s}
  paths: {key: {path: string}, rate: 10, period: 1m, start: 0s}
  trial: {key: {service: string}, rate: 25, period: 1s, start: 0s, mode: shadow}
  inner: {key: {service: string}, rate: 50, period: 1s, start: 0s, exceptions: [{service: health, mode: off, reason: probes}]}
`, []line{
		{says: "other numbers for production, staging and development", by: byPlan},
		every(1, minute, "product", "one path"),
		every(10, minute, "paths", "each other path"),
		{says: "a rule that only reports", by: "mode: shadow"},
		{says: "one value is exempt", by: byExceptions},
	}},
	{"a proxy", `
defaults: {kind: token bucket}
limits:
  api: {key: {addr: netip.Addr}, rate: 10, period: 1s, capacity: 21}
  logins: {key: {addr: netip.Addr}, rate: 1, period: 1s, capacity: 1, maxReserved: 5}
  connections: {key: {addr: netip.Addr}, kind: in flight, capacity: 10, hold: 1m}
`, []line{
		{says: "10 a second, and a burst of 20 at once", limit: "api", theirs: func() rule { return excess(10, 20) }},
		{says: "1 a second, of which 5 are delayed", limit: "logins", theirs: func() rule { return excess(1, 5) }},
		{says: "10 connections at a time", by: "kind: in flight"},
	}},
	{"an authority for certificates", `
defaults: {kind: token bucket}
limits:
  registrations: {key: {addr: netip.Addr}, rate: 10, period: 3h, capacity: 20, exceptions: [{addr: 192.0.2.1, rate: 200, capacity: 200, reason: a provider}]}
  orders: {key: {account: int64}, rate: 300, period: 3h, capacity: 300}
  failures: {key: {account: int64}, rate: 5, period: 1h, capacity: 5}
`, []line{
		{says: "registrations of an address", limit: "registrations", theirs: func() rule { return gcra(10, 3*hour, 20, 9*minute) }, later: 9 * minute, nearly: rounding},
		{says: "orders of an account", limit: "orders", theirs: func() rule { return gcra(300, 3*hour, 300, 18*second) }, later: 18 * second, nearly: rounding},
		{says: "failures of an account", limit: "failures", theirs: func() rule { return gcra(5, hour, 5, 6*minute) }, later: 6 * minute, nearly: rounding},
		{says: "other numbers for some addresses, with a comment", by: byExceptions},
	}},
}

const rounding = "theirs rounds what is left to whole requests, so that one may pass up to half an interval early"

// The rules of public applications can be said in limits.yaml and a function, and decide alike, request for request. Those
// that are only nearly the same say how, and NOT-OFFERED.md has them.
func TestConfigurationsOfApplications(t *testing.T) {
	exactly, nearly := 0, 0
	for _, c := range configurations {
		t.Run(c.app, func(t *testing.T) {
			file, problems := fields.Parse("limits.yaml", []byte("version: 1\npackage: limits"+c.limits))
			require.Empty(t, problems, problems)
			policies := map[string]*runtime.Policy{}
			for _, l := range file.Limits {
				policies[l.Policy.Name] = &l.Policy
			}
			for _, line := range c.lines {
				require.True(t, (line.limit == "") == (line.by != ""), line.says)
				if line.nearly == "" {
					exactly++
				} else {
					nearly++
				}
				if line.limit == "" {
					continue
				}
				p := policies[line.limit]
				require.NotNil(t, p, line.limit)
				switch {
				case line.theirs == nil:
					assert.Equal(t, aBan, line.nearly)
					compareBans(t, p)
				case p.Reserves():
					compareDelays(t, p, line.theirs())
				default:
					for seed := range uint64(2) {
						compareWith(t, p, line.theirs(), line.later, seed)
					}
				}
			}
		})
	}
	t.Logf("%d rules exactly, %d nearly", exactly, nearly)
	assert.GreaterOrEqual(t, exactly*87, (exactly+nearly)*78, "at least 78 of 87")
}

// compareBans shows how nearly a penalty is a ban: as many requests pass, all are denied for as long, and that begins with
// the first request that is too many.
func compareBans(t *testing.T, p *runtime.Policy) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	now := start
	limit := limiter.New(&memstore.Store{Clock: func() time.Time { return time.UnixMilli(now) }}).Limit(p, runtime.KeyOf(runtime.String("k")))
	penalty, pause := p.Penalty.Step(1).Milliseconds(), int64(1_000)
	theirs := banned(p.Rate, p.Period.Milliseconds(), penalty)
	for range p.Rate {
		d, err := limit.Allow(t.Context())
		require.NoError(t, err)
		allowed, take := theirs(now)
		require.True(t, allowed && d.Allowed)
		take()
	}
	for _, step := range []struct {
		after        int64
		theirs, ours bool
	}{
		{pause, false, false}, // the first request that is too many
		{penalty - 1, false, false},
		{penalty, true, false},
		{penalty + pause - 1, true, false},
		{penalty + pause, true, true},
	} {
		now = start + step.after
		d, err := limit.Allow(t.Context())
		require.NoError(t, err)
		allowed, _ := theirs(now)
		require.Equal(t, []bool{step.theirs, step.ours}, []bool{allowed, d.Allowed}, "%d ms after the burst", step.after)
	}
}

// compareDelays compares the delays of a limit that is reserved with a rule that delays.
func compareDelays(t *testing.T, p *runtime.Policy, theirs rule) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	limit := limiter.New(&memstore.Store{Clock: func() time.Time { return time.UnixMilli(now) }}).Reservable(p, runtime.KeyOf(runtime.String("k")))
	for step, passed := range []int64{0, 0, 0, 0, 0, 0, 0, 500, 600, 0, 3000, 0, 0, 0, 0, 10_000, 0} {
		now += passed
		r, err := limit.Reserve(t.Context())
		require.NoError(t, err)
		allowed, take := theirs(now)
		require.Equal(t, allowed, r.Allowed, "step %d", step)
		if allowed {
			take()
		}
	}
}

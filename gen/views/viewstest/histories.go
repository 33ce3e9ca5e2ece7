package viewstest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// write replaces all rows by those of new histories.
func (s *suite) write() {
	// Rarely so late that windows of calendars end beyond the last in the view.
	s.latest = time.Date(2026+s.IntN(20), time.Month(1+s.IntN(12)), 1+s.IntN(28), s.IntN(24), s.IntN(60), 0, s.IntN(1e9), time.UTC).UnixNano()
	s.keys = nil
	var rows []string
	for _, p := range s.limits {
		for i := range keysPerLimit {
			k := key{p.Name, fmt.Sprintf("é|%d", i), s.history(p, fmt.Sprintf("é|%d", i))}
			s.keys = append(s.keys, k)
			for shard, state := range k.states {
				if state.Exists {
					rows = append(rows, fmt.Sprintf("('%s', '%s', %d, %s, %d, %s)", k.name, k.key, shard, literal(state.Value), state.TS, literal(state.Prev)))
				}
			}
		}
	}
	s.exec("DELETE FROM " + s.table)
	s.exec("INSERT INTO " + s.table + " VALUES " + strings.Join(rows, ", "))
	s.writeLog()
}

func literal(f float64) string { return strconv.FormatFloat(f, 'e', -1, 64) }

// history returns the rows after some requests under an earlier version of a limit, and some under this one.
func (s *suite) history(p *runtime.Policy, key string) (states []runtime.State) {
	if s.IntN(2) == 0 {
		periods := 5
		if p.Precise {
			periods = 1 // so that the log is long
		}
		states = s.requests(s.earlier(p), key, nil, 1+s.IntN(40), periods)
	}
	return s.requests(p, key, states, s.IntN(12)*s.IntN(2), 2)
}

// earlier returns a limit with other numbers. Its windows have the same length, and those of a calendar another start.
func (s *suite) earlier(p *runtime.Policy) *runtime.Policy {
	old := *p
	old.Overrides = runtime.OverrideBounds{}
	old.Rate = max(1, int64(float64(p.Rate)*(0.2+3*s.Float64())))
	if old.Capacity = old.Rate; p.Kind != runtime.SlidingWindow {
		old.Capacity = min(runtime.MaxTokens, int64(float64(p.Capacity)*(0.2+3*s.Float64())))
	}
	if p.MaxReserved > 0 && p.MaxReserved != runtime.Unbounded {
		old.MaxReserved = 1 + s.Int64N(3*p.MaxReserved)
	}
	if p.Precise {
		old.Precise = s.IntN(3) > 0
		old.Rate = min(old.Rate, runtime.MaxPreciseRate)
	}
	if p.Calendar.Unit != 0 {
		old.Calendar.At = time.Duration(s.IntN(24)) * time.Hour
		old.Calendar.From = runtime.Date{Year: 2024, Month: time.Month(1 + s.IntN(12)), Day: 1 + s.IntN(28)}
		if p.Calendar.Anniversary {
			old.Calendar.From = runtime.Date{}
		}
	}
	if p.Shards > 1 {
		old.Shards = 1 + s.IntN(2*p.Shards)
		old.Rate, old.Capacity = max(old.Rate, int64(old.Shards)), max(old.Capacity, int64(old.Shards))
		if old.MaxReserved > 0 {
			old.MaxReserved = max(old.MaxReserved, int64(old.Shards))
		}
	}
	if old.Capacity == 0 && old.MaxReserved == 0 {
		old.Capacity = 1
	}
	if old.Kind == runtime.SlidingWindow {
		old.Capacity = old.Rate
	}
	require.NoError(s.t, old.Validate())
	return &old
}

// requests executes requests on rows, in the periods before the end of the histories.
func (s *suite) requests(p *runtime.Policy, key string, states []runtime.State, count, periods int) []runtime.State {
	if p.Mode == runtime.ModeUnlimited {
		return states
	}
	first := s.latest - int64(float64(periods)*s.Float64()*float64(p.Period))
	for i := range count {
		now := first + int64(float64(s.latest-first)*float64(i)/float64(count))
		if s.IntN(20) == 0 {
			now -= s.Int64N(int64(p.Period)) // the clock goes back
		}
		q := runtime.Request{Policy: p, Key: key, Count: 1 + s.Int64N(max(1, p.Capacity))/(1+s.Int64N(6))}
		if p.Precise && s.IntN(4) > 0 {
			q.Count = 1
		}
		switch s.IntN(12) {
		case 0:
			q.Op = runtime.Refund
		case 1:
			q.Op = runtime.Charge
		case 2:
			q.Op = runtime.TakeUpTo
		case 3:
			if s.IntN(4) == 0 {
				q.Op = runtime.Reset
			}
		default:
			q.Reserve = p.MaxReserved > 0 && s.IntN(2) == 0
		}
		// A count that can never pass changes nothing.
		states, _, _ = Step(p, states, now, q, s.Uint64())
	}
	return states
}

// Step executes a request on all rows of a key.
func Step(p *runtime.Policy, states []runtime.State, now int64, q runtime.Request, seed uint64) ([]runtime.State, runtime.Decision, error) {
	rule := p.Rule(q.Key)
	if p.Precise {
		return rule.StepLog(states, now, q)
	}
	for len(states) < max(1, p.Shards) {
		states = append(states, runtime.State{})
	}
	if p.Shards > 1 {
		d, err := p.StepShards(states[:p.Shards], q.Key, now, q, seed)
		return states, d, err
	}
	next, d, err := rule.Step(states[0], now, q)
	states[0] = next
	return states, d, err
}

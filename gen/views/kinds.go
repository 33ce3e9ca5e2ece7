package views

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// The SELECT of a policy is nested: each level adds the columns that the next one needs, so that no expression is repeated.
// The innermost level reads the rows of the table. At the end, value_now is what a row lacks of a full one, as
// [runtime.State.Value] after a Peek, and full_seconds is when it is full, in seconds since 1970 UTC.

// noKeys is the view of a file whose limits are all left out.
const noKeys = `SELECT name, {key}, CAST(NULL AS {text}) AS plan, value AS tokens_left, value AS capacity, CAST(NULL AS {text}) AS full_at, 1 = 0 AS in_debt,
	CAST(NULL AS {text}) AS in_force
FROM {table} WHERE 1 = 0`

// earliest is less than any instant at which a row was written, and more than that of placeholders, which are not rows yet.
// From here to the present is a BIGINT.
const earliest = math.MinInt64 / 2

// endOfTime is the last instant of a timestamp on every database, in seconds since 1970 UTC: the end of the year 9999.
const endOfTime = 253402300799

// keys returns the SELECT of a policy.
func (w words) keys(p limit, plan string) string {
	planColumn := "CAST(NULL AS {text})"
	if plan != "" {
		planColumn = fmt.Sprintf("CAST('%s' AS {text})", plan)
	}
	below, value, full, first := w.levels(p), "r.value_now", "r.full_seconds", ""
	if p.Precise || p.Shards > 1 {
		below = level(below, "SUM(r.value_now) "+ofKey+" AS value_of_key", "MAX(r.full_seconds) "+ofKey+" AS full_of_key", "MIN(r.shard) "+ofKey+" AS first_shard")
		value, full, first = "r.value_of_key", "r.full_of_key", "\nWHERE r.shard = r.first_shard"
	}
	capacity := p.whole("capacity", p.Capacity)
	left := capacity + " + " + value
	fullAt := applied(w.time, fmt.Sprintf("NULLIF(LEAST(%s, %[2]d), %[2]d)", full, int64(endOfTime)))
	inDebt, inForce := left+" < -1e-6", "CAST(NULL AS {text})"
	if p.Overridable() {
		inDebt, inForce = "r.lifted = 0 AND "+inDebt, "CAST(r.what AS {text})"
	}
	// The casts keep the types of columns when the view is replaced, whatever the numbers of the limits are.
	return fmt.Sprintf("SELECT r.name, r.{key}, %s AS plan, %s AS tokens_left, %s AS capacity,\n\t%s AS full_at,\n\t%s AS in_debt, %s AS in_force\nFROM %s r%s",
		planColumn, p.unlessLifted(left), p.unlessLifted("CAST("+capacity+" AS {integer})"), p.unlessLifted(fullAt), inDebt, inForce, below, first)
}

// ofKey makes an aggregate one over the rows of a key. A GROUP BY would do the same, but SQLite and MySQL do not restrict
// the levels below it to the key in the condition of a query.
const ofKey = "OVER (PARTITION BY r.name, r.{key})"

// levels returns what keys selects from.
func (w words) levels(p limit) string {
	switch {
	case p.Precise:
		return w.precise(p)
	case p.Kind == runtime.SlidingWindow:
		return w.sliding(p)
	case p.Kind == runtime.FixedWindow:
		return w.fixed(p)
	case p.Kind == runtime.TokenBucket:
		return w.bucket(p)
	}
	panic(fmt.Sprintf("views: no SQL for the kind %v: add a case to levels in gen/views/kinds.go", p.Kind))
}

// level returns a SELECT of all columns of the level below, and of some more.
func level(below string, columns ...string) string {
	return "(\n\tSELECT r.*, " + strings.Join(columns, ",\n\t\t") + "\n\tFROM " + indented(below) + " r\n)"
}

func indented(text string) string { return strings.ReplaceAll(text, "\n", "\n\t") }

// bucket is [runtime.TokenBucket].
func (w words) bucket(p limit) string {
	n := numbersOf(p)
	below := level(w.rows(p), "GREATEST(0, r.present - r.ts) AS elapsed")
	below = level(below, fmt.Sprintf("%s AS value_now", n.filled("r.value", n.accrued())))
	return level(below, fmt.Sprintf("%s AS full_seconds", n.unlessFull("r.value_now",
		fmt.Sprintf("CAST(GREATEST(r.ts, r.present) AS DOUBLE) / 1e9 - r.value_now * %s / %s", n.seconds, n.rate))))
}

// fixed is [runtime.FixedWindow].
func (w words) fixed(p limit) string {
	n := numbersOf(p)
	below, ended, accrued := w.rows(p), "r.start > r.ts", n.accrued()
	if p.Calendar.Unit != 0 {
		half := int64(p.Period) / 2
		below = level(below, fmt.Sprintf("(GREATEST(0, r.calendar_start - r.ts) + %d) DIV %d AS windows", half, p.Period))
		below = level(below, "CASE WHEN r.windows > 0 THEN r.calendar_start ELSE r.ts END AS start")
		ended, accrued = "r.windows > 0", fmt.Sprintf("CAST(r.windows AS DOUBLE) * %s", n.rate)
	} else {
		below = level(below, windowStart(p)+" AS start")
		below = level(below, "GREATEST(0, r.start - r.ts) AS elapsed")
	}
	held := "r.value"
	if n.lowest != "" {
		held = fmt.Sprintf("CASE WHEN %s THEN GREATEST(r.value, %s) ELSE r.value END", ended, n.lowest)
	}
	below = level(below, w.once("rows_1", n.filled(held, accrued)+" AS value_now", "GREATEST(r.ts, r.start) AS since")...)
	least := "r.value_now"
	if p.Calendar.Unit != 0 {
		// Its windows are counted from the row, which nothing writes before it is full.
		least = "r.value"
	}
	if n.lowest != "" {
		least = fmt.Sprintf("GREATEST(%s, %s)", least, n.lowest)
	}
	below = level(below, "-"+least+" AS lacking")
	if p.Calendar.Unit != 0 {
		return w.calendarFull(p, n, below)
	}
	return w.windowFull(p, n, below)
}

// windowFull adds when a row is full whose windows have the length of the period.
func (w words) windowFull(p limit, n numbers, below string) string {
	if p.Start.FirstUse() {
		return level(below, n.unlessFull("r.value_now", fmt.Sprintf("GREATEST(CAST(r.since AS DOUBLE) / 1e9 + r.lacking * %s / %s, CAST(r.ts AS DOUBLE) / 1e9 + %[1]s)",
			seconds(p.Period), n.rate))+" AS full_seconds")
	}
	below = level(below, windowOf(p, "r.since")+" AS window_start")
	below = level(below, w.once("rows_2", fmt.Sprintf("r.lacking / %s + CAST(r.since - r.window_start AS DOUBLE) / %d AS windows_lacking", n.rate, p.Period))...)
	return level(below, n.unlessFull("r.value_now", fmt.Sprintf("CAST(r.window_start AS DOUBLE) / 1e9 + %s * %s",
		applied(w.ceil, "r.windows_lacking"), seconds(p.Period)))+" AS full_seconds")
}

// calendarFull adds when a row of a calendar is full: at the first window as of which as many windows have elapsed as the
// row lacks.
func (w words) calendarFull(p limit, n numbers, below string) string {
	// More windows than there are in the view need not be counted, and would overflow.
	most := int64(lastYear-firstYear+1)*int64(366*24*time.Hour)/int64(p.Period) + 2
	below = level(below, w.once("rows_2", fmt.Sprintf("r.lacking / %s AS windows_lacking", n.rate))...)
	below = level(below, fmt.Sprintf("GREATEST(r.present + 1, r.ts + CAST(LEAST(%d, GREATEST(1, %s)) AS {integer}) * %d - %d) AS due",
		most, applied(w.ceil, "r.windows_lacking"), p.Period, int64(p.Period)/2))
	next := fmt.Sprintf("(SELECT MIN(w.since + GREATEST(0, r.due - w.since + w.length - 1) DIV w.length * w.length) "+
		"FROM {windows_view} w WHERE w.name = '%s' AND w.until >= r.due)", p.Name)
	return level(below, n.unlessFull("r.value_now", fmt.Sprintf("COALESCE(CAST(%s AS DOUBLE) / 1e9, %d)", next, int64(endOfTime)))+" AS full_seconds")
}

// sliding is [runtime.SlidingWindow] without Precise.
func (w words) sliding(p limit) string {
	n := numbersOf(p)
	below := level(w.rows(p), windowStart(p)+" AS start", "GREATEST(0.0, -r.value) AS used")
	below = level(below,
		"CASE WHEN r.ts >= r.start THEN r.used ELSE 0.0 END AS used_now",
		fmt.Sprintf("CASE WHEN r.ts >= r.start THEN GREATEST(0.0, r.prev) WHEN r.ts >= r.start - %d THEN r.used ELSE 0.0 END AS used_before", p.Period),
		"GREATEST(r.ts, r.start) AS since")
	below = level(below, fmt.Sprintf("-(r.used_before * GREATEST(0.0, 1.0 - CAST(GREATEST(0, r.present - r.since) AS DOUBLE) / %d) + r.used_now) AS value_now", p.Period),
		windowOf(p, "r.since")+" AS window_start")
	// Tokens come back as the use of the window before fades.
	n.allowance = fmt.Sprintf("LEAST(1e-6, 1e3 * r.used_before / %d)", p.Period)
	return level(below, n.unlessFull("r.value_now", fmt.Sprintf("CAST(r.window_start AS DOUBLE) / 1e9 + CASE WHEN r.used_now > 0 THEN 2 ELSE 1 END * %s",
		seconds(p.Period)))+" AS full_seconds")
}

// precise is [runtime.SlidingWindow] with Precise: see package runtime for the log that its rows are. The place in the head
// is decoded, each run gets its index in the log, and those within the period are counted. If an edit has made the log
// smaller, the oldest runs count as long as the last of them.
func (w words) precise(p limit) string {
	below := fmt.Sprintf(`(
	SELECT r.*, n.present
	FROM (
		SELECT r.*, MAX(CASE WHEN r.shard = 0 THEN r.prev END) %s AS head_prev
		FROM {table} r
		WHERE r.name = '%s' AND r.shard >= 0 AND r.ts >= %d
	) r CROSS JOIN (SELECT {now} AS present) n
	WHERE r.head_prev IS NOT NULL
)`, ofKey, p.Name, int64(earliest))
	below = w.overridden(p, below)
	below = level(below, "CASE WHEN r.head_prev <= -1 THEN CAST(-1 - r.head_prev AS {integer}) ELSE -1 END AS place")
	below = level(below,
		"CASE WHEN r.place < 0 THEN 0 ELSE r.place % 1024 END AS ring_start",
		"CASE WHEN r.place < 0 THEN 0 ELSE r.place DIV 1024 % 1024 END AS ring_length",
		"CASE WHEN r.place < 0 THEN 0 ELSE r.place DIV 1048576 % 1024 END AS ring_size")
	below = level(below,
		"CASE WHEN r.shard = 0 THEN r.ring_length WHEN r.shard <= r.ring_size THEN (r.shard - 1 - r.ring_start + r.ring_size) % GREATEST(1, r.ring_size) END AS log_index",
		fmt.Sprintf("GREATEST(0, r.ring_length - %s + 1) AS log_first", p.whole("rate", p.Rate)),
		"CASE WHEN r.shard = 0 AND r.place >= 0 THEN r.place DIV 1073741824 ELSE -r.value END AS tokens")
	below = level(below, "MAX(CASE WHEN r.log_index = r.log_first THEN r.ts END) "+ofKey+" AS first_ts")
	past := fmt.Sprintf("r.present - %d", p.Period)
	adopted := w.adopted(p, past)
	below = level(below, fmt.Sprintf(`CASE
			WHEN r.shard = 0 AND r.place < 0 THEN %s
			WHEN (r.shard = 0 OR r.log_index < r.ring_length) AND CASE WHEN r.log_index < r.log_first THEN r.first_ts ELSE r.ts END > %s THEN 0.0 - r.tokens
			ELSE 0.0 END AS value_now`, adopted, past))
	return level(below, fmt.Sprintf(`CAST(CASE WHEN r.shard > 0 OR r.value_now >= 0 THEN r.present
			WHEN r.place < 0 AND r.value < 0 THEN r.ts + %d ELSE r.ts + %d END AS DOUBLE) / 1e9 AS full_seconds`, 2*p.Period-1, p.Period))
}

// adopted is the value of a row that was written before the limit was precise: its tokens may have been taken until
// the end of their window, and count from then.
func (w words) adopted(p limit, past string) string {
	before := fmt.Sprintf("r.ts > %s", past)
	now := fmt.Sprintf("r.ts > %s - %d", past, p.Period-1)
	// If the rate is 1, there is no room for two runs.
	before = fmt.Sprintf("CASE WHEN %s = 1 AND r.value < 0 THEN %s ELSE %s END", p.whole("rate", p.Rate), now, before)
	return fmt.Sprintf("CASE WHEN %s AND r.prev > 0 THEN %s ELSE 0.0 END + CASE WHEN %s AND r.value < 0 THEN %s ELSE 0.0 END",
		before, "-"+applied(w.ceil, "r.prev"), now, "-"+applied(w.ceil, "(-r.value)"))
}

// rows are the rows of a policy, with the present and, for shards, their share of the numbers.
func (w words) rows(p limit) string {
	present := "(SELECT {now} AS present)"
	if p.Calendar.Unit != 0 {
		present = fmt.Sprintf("(\n\t\tSELECT c.present, w.since + (c.present - w.since) DIV w.length * w.length AS calendar_start\n"+
			"\t\tFROM (SELECT {now} AS present) c JOIN {windows_view} w ON w.name = '%s' AND w.since <= c.present AND c.present < w.until\n\t)", p.Name)
	}
	of := strconv.Itoa(p.Shards)
	shards := "r.shard < " + of
	if p.Shards <= 1 {
		shards = "r.shard = 0"
	}
	below := w.overridden(p, fmt.Sprintf("(\n\tSELECT r.*, n.*\n\tFROM {table} r CROSS JOIN %s n\n\tWHERE r.name = '%s' AND %s AND r.ts >= %d\n)",
		present, p.Name, shards, int64(earliest)))
	if p.Shards <= 1 {
		return below
	}
	if p.Kind.Linear() {
		below, of = holding(p, below), "r.holders"
	}
	return level(below, share(p.whole("rate", p.Rate), of)+" AS rate", share(p.whole("capacity", p.Capacity), of)+" AS capacity",
		share(p.whole("debt", p.MaxReserved), of)+" AS debt")
}

// holding adds how many shards hold the tokens of the key. These are all of them, unless the limit had fewer shards when
// the key went into debt: then the first ones hold all of it.
func holding(p limit, below string) string {
	n := strconv.Itoa(p.Shards)
	below = level(below, "COUNT(*) "+ofKey+" AS existing", "MAX(r.shard) "+ofKey+" AS last_shard",
		fmt.Sprintf("MAX(CASE WHEN %s + r.value < -1e-6 THEN 1 ELSE 0 END) %s AS indebted", share(p.whole("capacity", p.Capacity), n), ofKey))
	return level(below, fmt.Sprintf("CASE WHEN r.indebted = 1 AND r.existing = r.last_shard + 1 THEN r.existing ELSE %s END AS holders", n))
}

// share is the part of a number of tokens that belongs to the row's shard of n.
func share(total, n string) string {
	return fmt.Sprintf("(%s DIV %s + CASE WHEN r.shard < %[1]s %% %[2]s THEN 1 ELSE 0 END)", total, n)
}

// windowStart is the start of the window at the present.
func windowStart(p limit) string {
	_, aligned := p.Start.Offset()
	switch {
	case p.Start.FirstUse():
		return fmt.Sprintf("CASE WHEN r.ts > r.present - %d THEN r.ts ELSE r.present END", p.Period)
	case aligned:
		return windowOf(p, "r.present")
	}
	// SQL cannot hash the key, but the row was written with the start of one of its windows.
	return fmt.Sprintf("r.ts + GREATEST(0, r.present - r.ts) DIV %d * %[1]d", p.Period)
}

// windowOf is the start of the window that contains an instant, which is itself such a start if that depends on the key.
func windowOf(p limit, at string) string {
	offset, aligned := p.Start.Offset()
	if !aligned {
		return at
	}
	phase := (offset%p.Period + p.Period) % p.Period
	if phase == 0 {
		return fmt.Sprintf("%s - %[1]s %% %d", at, p.Period)
	}
	return fmt.Sprintf("%s - (%[1]s - %d) %% %d", at, phase, p.Period)
}

// numbers are the numbers of a row's rule as SQL: literals, or columns of rows for a shard.
type numbers struct {
	rate, capacity string
	// lowest is the least value with which a window can end, or "" for an unbounded debt.
	lowest string
	// allowance is how many tokens a full row may lack.
	allowance string
	// period is in nanoseconds, and seconds the same.
	period, seconds string
}

func numbersOf(p limit) numbers {
	n := numbers{
		rate: strconv.FormatInt(p.Rate, 10), capacity: strconv.FormatInt(p.Capacity, 10),
		lowest: fmt.Sprintf("-%d.0", p.Capacity+p.MaxReserved), period: strconv.FormatInt(int64(p.Period), 10), seconds: seconds(p.Period),
		allowance: strconv.FormatFloat(min(1e-6, 1000*float64(p.Rate)/float64(p.Period)), 'e', -1, 64),
	}
	debt := "r.whole_debt"
	if p.periodsDiffer() {
		n.period, n.seconds = "r.whole_period", "(CAST(r.whole_period AS DOUBLE) / 1e9)"
	}
	if p.Overridable() {
		n.rate, n.capacity = "r.whole_rate", "r.whole_capacity"
	}
	if p.Shards > 1 {
		n.rate, n.capacity, debt = "r.rate", "r.capacity", "r.debt"
	}
	if p.Overridable() || p.Shards > 1 {
		n.lowest = fmt.Sprintf("-1.0 * (%s + %s)", n.capacity, debt)
		n.allowance = fmt.Sprintf("LEAST(1e-6, 1e3 * %s / %s)", n.rate, n.period)
	}
	switch {
	case p.MaxReserved != runtime.Unbounded:
	case p.Overridable():
		// An override can bound it.
		n.lowest = fmt.Sprintf("CASE WHEN r.whole_debt = %d THEN -1e300 ELSE %s END", int64(runtime.Unbounded), n.lowest)
	default:
		n.lowest = ""
	}
	return n
}

// accrued is the tokens that have accrued in the column elapsed, with the same roundings as package runtime.
func (n numbers) accrued() string {
	return fmt.Sprintf("CAST(r.elapsed DIV %s AS DOUBLE) * %s + CAST(r.elapsed %% %[1]s AS DOUBLE) * %[2]s / %[1]s", n.period, n.rate)
}

// filled is a value after some tokens have accrued, rounded as in package runtime.
func (n numbers) filled(value, accrued string) string {
	return fmt.Sprintf("(LEAST(0.0, %s + (%s)) + 2 * %s) - 2 * %[3]s", value, accrued, n.capacity)
}

// unlessFull is the present in seconds if the value is that of a full row, and otherwise the given instant.
func (n numbers) unlessFull(value, instant string) string {
	return fmt.Sprintf("CASE WHEN %s >= -%s THEN CAST(r.present AS DOUBLE) / 1e9\n\t\t\tELSE %s END", value, n.allowance, instant)
}

// seconds is a duration as a literal.
func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'g', -1, 64) }

// once adds a column by which SQLite computes the columns of a level once. Otherwise it copies their expressions into
// each place above where they occur, and the statement becomes a hundred times as long.
func (w words) once(name string, columns ...string) []string {
	if !w.copies {
		return columns
	}
	return append(columns, "COUNT(*) "+ofKey+" AS "+name)
}

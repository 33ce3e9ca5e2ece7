// The limiter of package runtime for one row, in JavaScript: Rule.step is meter.Rule.Step, and a test compares the two.
//
// Instants and durations are in nanoseconds since an origin near the present, as numbers: below 2^53, which are 104 days,
// they are exact. A rule has kind, precise, rate, capacity, debt, period, phase, firstUse, and for a calendar starts: the
// starts of its windows, the first at or before the origin. A state is {} for a new key, which is full; otherwise
// it has value, ts and prev as a row of the store, or for a precise sliding window runs, from the oldest to the newest, or
// for a limit in flight ts, last, which is the largest fence so far, and holders, in the order of their ends.
// With penalties and forgive, it may have a penalty: until when, and which of them. With warn, percentages of the capacity, the
// decision of a request that takes tokens may have crossed, the highest of them that it has crossed. A request of a class has
// leaves, the percentage of the capacity that it leaves to others.
const MAX_INSTANT = 2 ** 63;
const MAX_TOKENS = 1e15;
const ENDLESS = 1e300;
const MAX_RUN = 2e15, MAX_RUNS = 1002;

const floorMod = (a, m) => { const r = a % m; return r < 0 ? r + m : r; };
const allowance = (rate, period) => Math.min(1e-6, 1000 * rate / period);
const wholeTokens = (value, spare) => Math.max(0, Math.floor(value + spare));
const nanoseconds = f => Math.min(MAX_INSTANT, Math.ceil(f));

// tokenBucket, fixedWindow, slidingWindow: available returns the tokens and the allowance, and due the first instant at
// which a state has some tokens that it lacks now, up to rounding, and the interval between such instants.
const tokenBucket = {
  windowed: false,
  available(r, s, now) { return [r.capacity + r.accrueTo(s, now).value, allowance(r.rate, r.period)]; },
  take(r, s, now, count) {
    const next = r.accrueTo(s, now);
    next.value -= count;
    return next;
  },
  refund(r, s, now, count) {
    const next = r.accrueTo(s, now);
    next.value = Math.min(0, next.value + count);
    return next;
  },
  due(r, s, now, need) {
    const accrued = r.accrueTo(s, now);
    let at = accrued.ts + r.timeFor(need - (r.capacity + accrued.value));
    const fraction = accrued.value !== Math.trunc(accrued.value);
    if (fraction && at - 1 > now && r.capacity + r.accrueTo(s, at - 1).value >= need) at--;
    return [at, 1];
  },
  windowEnd: () => MAX_INSTANT,
};

const fixedWindow = {
  windowed: true,
  accrue(r, s, now) {
    const start = this.currentStart(r, s, now);
    if (s.ts === undefined) return r.accrueTo(s, start);
    const ended = start > s.ts && (!r.starts || r.windows(s.ts, start) > 0);
    return r.accrueTo(ended ? { ...s, value: Math.max(s.value, r.lowest()) } : s, start);
  },
  currentStart(r, s, now) {
    if (r.starts) {
      const start = r.windowStart(now);
      return s.ts !== undefined && r.windows(s.ts, start) === 0 ? s.ts : start;
    }
    if (!r.firstUse) return r.windowStart(now);
    return s.ts !== undefined && now < s.ts + r.period ? s.ts : now;
  },
  available(r, s, now) { return [r.capacity + this.accrue(r, s, now).value, allowance(r.rate, r.period)]; },
  take(r, s, now, count) {
    const next = this.accrue(r, s, now);
    next.value -= count;
    return next;
  },
  refund(r, s, now, count) {
    const next = this.accrue(r, s, now);
    next.value = Math.min(0, next.value + count);
    return next;
  },
  due(r, s, now, need) {
    const accrued = this.accrue(r, s, now);
    accrued.value = Math.max(accrued.value, r.lowest());
    const lacking = need - (r.capacity + accrued.value);
    if (r.starts) return [this.calendarDue(r, s, accrued, now, need), 1];
    if (!r.firstUse) {
      const start = r.windowStart(accrued.ts);
      const windows = Math.ceil(lacking / r.rate + (accrued.ts - start) / r.period);
      return [Math.min(MAX_INSTANT, start + Math.max(1, windows) * r.period), r.period];
    }
    return [Math.max(accrued.ts + r.timeFor(lacking), (s.ts === undefined ? 0 : s.ts) + r.period), 1];
  },
  calendarDue(r, s, accrued, now, need) {
    const windows = Math.ceil((need - (r.capacity + accrued.value)) / r.rate);
    if (!(windows <= MAX_INSTANT / r.period - 1)) return MAX_INSTANT;
    const earliest = accrued.ts + Math.max(1, windows) * r.period - Math.floor(r.period / 2);
    let at = r.windowEnd(Math.max(now, earliest - 1));
    while (at < MAX_INSTANT && !r.enough(s, at, need)) at = r.windowEnd(at);
    for (let before = r.windowStart(at - 1); before > now && r.enough(s, before, need); before = r.windowStart(at - 1)) at = before;
    return at;
  },
  windowEnd(r, at) { return r.firstUse ? MAX_INSTANT : r.nextStart(at); },
};

const slidingWindow = {
  windowed: true,
  windowsAt(r, s, now) {
    const w = r.windowStart(now);
    if (s.ts === undefined) return { start: w, current: 0, previous: 0 };
    const used = Math.max(0, -s.value);
    if (s.ts >= w) return { start: s.ts, current: used, previous: Math.max(0, s.prev) };
    return { start: w, current: 0, previous: s.ts >= w - r.period ? used : 0 };
  },
  state: w => ({ value: 0 - w.current, ts: w.start, prev: w.previous }),
  available(r, s, now) {
    const w = this.windowsAt(r, s, now);
    const weight = Math.max(0, 1 - Math.max(0, now - w.start) / r.period);
    return [r.capacity - (w.previous * weight + w.current), allowance(w.previous, r.period)];
  },
  take(r, s, now, count) {
    const w = this.windowsAt(r, s, now);
    w.current += count;
    return this.state(w);
  },
  refund(r, s, now, count) {
    const w = this.windowsAt(r, s, now);
    const current = Math.min(count, w.current);
    w.current -= current;
    w.previous = Math.max(0, w.previous - (count - current));
    return this.state(w);
  },
  due(r, s, now, need) {
    const w = this.windowsAt(r, s, now);
    const room = r.capacity - need;
    const end = r.windowStart(w.start) + r.period;
    if (w.current > room) return [end + nanoseconds((1 - room / w.current) * r.period), 1];
    if (w.previous === 0) return [w.start, 1];
    return [Math.min(end, w.start + nanoseconds((1 - (room - w.current) / w.previous) * r.period)), 1];
  },
  windowEnd: (r, at) => r.nextStart(at),
};

// inFlight counts slots: a holder {fence, end, slots} has its slots until its end, or until it releases them.
const inFlight = {
  windowed: false,
  held: (s, now) => (s.holders || []).filter(h => h.end > now),
  free(r, s, now) { return r.capacity - this.held(s, now).reduce((sum, h) => sum + h.slots, 0); },
  state(s, now, last, holders) {
    return { ts: s.ts === undefined ? now : Math.max(now, s.ts), last, holders: holders.sort((a, b) => a.end - b.end) };
  },
  available(r, s, now) { return [this.free(r, s, now), 0]; },
  take(r, s, now, count) {
    const last = s.last === undefined ? now : Math.max(s.last + 1, now);
    return this.state(s, now, last, [...this.held(s, now), { fence: last, end: now + r.period, slots: count }]);
  },
  refund(r, s, now, count, fence) {
    const holders = this.held(s, now);
    if (!holders.some(h => h.fence === fence)) return s;
    const left = h => h.fence === fence ? { ...h, slots: Math.max(0, h.slots - count) } : h;
    return this.state(s, now, s.last, holders.map(left).filter(h => h.slots > 0));
  },
  reset(r, s, now) { return this.state(s, now, s.last, []); },
  // renewOrRelease returns undefined if the slot is lost.
  renewOrRelease(r, s, now, q) {
    const holders = this.held(s, now), holder = holders.find(h => h.fence === q.fence);
    if (!holder) return undefined;
    const others = holders.filter(h => h !== holder);
    return this.state(s, now, s.last, q.op === "renew" ? [...others, { ...holder, end: now + r.period }] : others);
  },
  due(r, s, now, need) {
    let lacking = need - this.free(r, s, now);
    const last = this.held(s, now).find(h => (lacking -= h.slots) <= 0);
    return [last ? last.end : MAX_INSTANT, 1];
  },
  windowEnd: () => MAX_INSTANT,
};

const algorithms = { "token bucket": tokenBucket, "fixed window": fixedWindow, "sliding window": slidingWindow, "in flight": inFlight };

class Rule {
  constructor(numbers) {
    Object.assign(this, { debt: 0, phase: 0, firstUse: false, precise: false, left: 0, priorities: [] }, numbers);
    this.algorithm = algorithms[this.kind];
    if (!this.algorithm) throw new Error("unknown kind " + this.kind);
    if (this.debt >= MAX_TOKENS) this.debt = ENDLESS;
  }

  // ofClass returns the rule for requests that leave a percentage of the capacity to others: it has a smaller capacity, and if they
  // leave any tokens, no reservations beyond it.
  ofClass(leaves) {
    const left = Math.floor((this.capacity * leaves + 99) / 100);
    return Object.assign(Object.create(Rule.prototype), this, { capacity: this.capacity - left, left });
  }

  // step executes a request {op, count, reserve, fence, leaves} in state s at the instant now. op is take, check, takeUpTo, charge,
  // refund, peek or reset, and for slots renew or release. It returns the state after it, and the decision; for a count that
  // can never pass, or a slot that is lost, an error.
  step(s, now, q) {
    if (q.leaves) return this.ofClass(q.leaves).step(s, now, { ...q, leaves: 0 });
    const count = q.count === undefined ? 1 : q.count;
    const error = this.refuseSlots(q) || this.refuse(q, count);
    if (error) return [s, { allowed: false, error, remaining: 0, retryAfter: 0, delay: 0 }];
    const [next, d] = this.penalties ? this.stepPenalty(s, now, q, count) : this.stepKind(s, now, q, count);
    if (this.warn && d.taken > 0) d.crossed = this.crossed(d.value + d.taken, d.value);
    return [next, d];
  }

  // crossed returns the highest percentage that a take has crossed, or 0, given the tokens before it and after it.
  crossed(before, after) {
    const highest = this.warn.findLast(percent => this.reached(percent, after));
    return highest === undefined || this.reached(highest, before) ? 0 : highest;
  }

  reached(percent, left) { return this.capacity - Math.floor(left + 1e-6) >= percent * (this.capacity + this.left) / 100; }

  // stepPenalty denies while a penalty is in force, and starts one after a denial.
  stepPenalty(s, now, q, count) {
    let { penalty, ...bare } = s;
    const decides = q.op === "take" || q.op === "check" || q.op === "takeUpTo";
    const inForce = d => {
      const left = penalty.until - now;
      return { ...d, remaining: 0, penaltyFor: left, retryAfter: d.allowed ? 0 : Math.max(d.retryAfter, left) };
    };
    if (penalty && now < penalty.until && decides && count > 0) {
      const [, d] = this.stepKind(bare, now, { op: "check" }, q.op === "takeUpTo" ? 1 : count);
      return [s, inForce({ ...d, allowed: false, taken: 0 })];
    }
    const [next, d] = this.stepKind(bare, now, q, count);
    if (d.error) return [s, d];
    if (q.op === "reset") return [next, d];
    const forgiven = !penalty || now >= penalty.until + this.forgive;
    if (!d.allowed && q.op !== "check") {
      const number = forgiven ? 0 : Math.min(penalty.number + 1, this.penalties.length - 1);
      penalty = { until: now + this.penalties[number], number };
    } else if (forgiven && d.taken > 0) penalty = undefined;
    if (!penalty) return [next, d];
    return [{ ...next, penalty }, now < penalty.until ? inForce(d) : d];
  }

  // stepKind executes a valid request by the algorithm of the kind.
  stepKind(s, now, q, count) {
    if (this.precise) return this.stepLog(s, now, q, count);
    const ofHolder = q.op === "renew" || q.op === "release";
    const counts = q.op !== "peek" && q.op !== "reset" && !ofHolder;
    if (counts && count === 0) return [s, this.balance(s, now)];
    switch (q.op) {
      case "takeUpTo": return this.decide(s, now, { op: "take", count: this.takeable(s, now, count) });
      case "take": case "check": return this.decide(s, now, { op: q.op, count, reserve: q.reserve });
      case "charge": s = this.algorithm.take(this, s, now, count); return [s, { ...this.balance(s, now), taken: count }];
      case "refund": if (s.ts !== undefined) s = this.algorithm.refund(this, s, now, count, q.fence); break;
      case "renew": case "release": {
        const next = this.algorithm.renewOrRelease(this, s, now, q);
        if (!next) return [s, { allowed: false, error: "the slot is lost", remaining: 0, retryAfter: 0, delay: 0 }];
        s = next;
        break;
      }
      case "reset": s = this.reset(s, now); break;
      case "peek": break;
      default: throw new Error("unknown operation " + q.op);
    }
    return [s, this.balance(s, now)];
  }

  refuseSlots(q) {
    const ofHolder = q.op === "renew" || q.op === "release";
    if (this.kind !== "in flight") return ofHolder ? "only slots are renewed and released" : "";
    if (q.op === "takeUpTo" || q.op === "charge" || q.reserve || q.op === "refund" && q.fence === undefined) return "not for slots";
    return "";
  }

  refuse(q, count) {
    if (q.op === "renew" || q.op === "release") return "";
    if (count < 0) return "a count is at least 0";
    const decides = q.op === "take" || q.op === "check" || q.op === "takeUpTo";
    let most = this.capacity;
    if (!decides || q.op === "takeUpTo" && this.capacity > 0) most = 2 * MAX_TOKENS;
    else if (q.op === "takeUpTo") most = 0;
    else if (q.reserve && !this.left) most = this.capacity + Math.min(this.debt, MAX_TOKENS);
    return count <= most ? "" : "more than the capacity";
  }

  decide(s, now, q) {
    const after = this.algorithm.take(this, s, now, q.count);
    const need = q.count - (q.reserve && !this.left ? this.debt : 0);
    const enough = this.enough(s, now, need);
    const delay = this.delay(after, now, q, enough);
    const retryAfter = enough ? 0 : this.until(s, now, need);
    const allowed = retryAfter === 0;
    const next = allowed && q.op === "take" ? after : s;
    const fence = next === s ? undefined : next.last;
    return [next, { ...this.balance(next, now), fence, allowed, retryAfter, delay, taken: allowed && q.op === "take" ? q.count : 0 }];
  }

  delay(after, now, q, enough) {
    if (!q.reserve) return 0;
    if (enough) return this.until(after, now, 0);
    return Object.assign(Object.create(Rule.prototype), this, { debt: ENDLESS }).until(after, now, 0);
  }

  takeable(s, now, count) {
    const [tokens, spare] = this.algorithm.available(this, s, now);
    const n = Math.max(1, Math.min(count, wholeTokens(tokens, spare)));
    return n > 1 && !this.enough(s, now, n) ? n - 1 : n;
  }

  // balance returns an allowing decision with the tokens left.
  balance(s, now) {
    const [value, spare] = this.algorithm.available(this, s, now);
    const d = { allowed: true, remaining: wholeTokens(value, spare), value, retryAfter: 0, delay: 0, fullAfter: 0, resetAfter: 0, taken: 0 };
    if (this.algorithm.windowed) d.resetAfter = this.resetAfter(s, now);
    if (!(value - this.capacity >= -spare)) d.fullAfter = this.search(s, now, this.capacity) - now;
    return d;
  }

  reset(s, now) {
    if (s.ts === undefined) return s;
    if (this.algorithm.reset) return this.algorithm.reset(this, s, now);
    if (!this.algorithm.windowed) return { value: 0, ts: now };
    if (this.firstUse) return { value: 0, ts: now - this.period };
    const start = this.windowStart(now);
    // A sliding window stays in a later window, in which tokens were taken before the clock went back.
    return { value: 0, ts: this.kind === "sliding window" ? Math.max(start, s.ts) : start, prev: 0 };
  }

  resetAfter(s, now) {
    if (this.firstUse) return s.ts === undefined ? 0 : Math.max(0, s.ts + this.period - now);
    const end = this.windowEnd(s.ts === undefined ? now : Math.max(now, s.ts));
    return end >= MAX_INSTANT ? 0 : Math.max(0, end - now);
  }

  enough(s, at, need) {
    const [tokens, spare] = this.algorithm.available(this, s, at);
    return tokens - need >= -spare;
  }

  until(s, now, need) { return this.enough(s, now, need) ? 0 : this.search(s, now, need) - now; }

  // search returns the first instant at which s has need tokens, which it lacks now.
  search(s, now, need) {
    let [at, interval] = this.algorithm.due(this, s, now, need);
    at = Math.max(at, now + 1);
    let fails = at - interval;
    for (let step = interval; !this.enough(s, at, need) && at < MAX_INSTANT; step *= 2) {
      fails = at;
      at += step;
    }
    while (at - fails > interval) {
      const middle = fails + Math.floor(Math.floor((at - fails) / interval) / 2) * interval;
      if (middle <= fails || middle >= at) break; // beyond 2^53, instants are not this dense
      if (this.enough(s, middle, need)) at = middle; else fails = middle;
    }
    return at;
  }

  // accrueTo returns s with the tokens that have accrued up to the instant t.
  accrueTo(s, t) {
    if (s.ts === undefined) return { value: 0, ts: t, prev: 0 };
    if (t <= s.ts) return { value: this.round(Math.min(0, s.value)), ts: s.ts, prev: 0 };
    return { value: this.round(Math.min(0, s.value + this.accrued(s.ts, t))), ts: t, prev: 0 };
  }

  round(value) {
    const twice = 2 * this.capacity;
    return value + twice - twice;
  }

  accrued(from, to) {
    if (this.starts) return this.windows(from, to) * this.rate;
    const elapsed = to - from;
    const rest = elapsed % this.period;
    return (elapsed - rest) / this.period * this.rate + rest * this.rate / this.period;
  }

  // timeFor returns how long a number of tokens takes to accrue, rounded up.
  timeFor(tokens) {
    const whole = Math.trunc(tokens);
    if (!(whole < MAX_INSTANT)) return MAX_INSTANT;
    // The product exceeds 2^53.
    const product = BigInt(whole) * BigInt(this.period), rate = BigInt(this.rate);
    const rest = Number(product % rate) + (tokens - whole) * this.period;
    return Math.min(MAX_INSTANT, Number(product / rate) + nanoseconds(rest / this.rate));
  }

  lowest() { return -(this.capacity + this.left + this.debt); }

  // windows returns how many windows of a calendar begin after one start and up to another.
  windows(from, to) { return to <= from ? 0 : Math.floor((to - from + Math.floor(this.period / 2)) / this.period); }

  windowEnd(at) { return this.algorithm.windowEnd(this, at); }

  windowStart(at) {
    if (!this.starts) return at - floorMod(at - this.phase, this.period);
    const i = this.window(at), last = this.starts.length - 1;
    if (i <= last) return this.starts[Math.max(0, i)];
    return this.starts[last] + (i - last) * this.period;
  }

  nextStart(at) {
    if (!this.starts) return this.windowStart(at) + this.period;
    const i = this.window(at) + 1, last = this.starts.length - 1;
    return i <= last ? this.starts[i] : this.starts[last] + (i - last) * this.period;
  }

  // window returns the index of the window that contains an instant. After the last start of a calendar, windows have
  // their mean length.
  window(at) {
    const last = this.starts.length - 1;
    if (at >= this.starts[last]) return last + Math.floor((at - this.starts[last]) / this.period);
    let low = -1, high = last; // starts[low] <= at < starts[high]
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.starts[middle] <= at) low = middle; else high = middle;
    }
    return low;
  }

  // stepLog executes a request on the log of a precise sliding window: the runs of tokens of the last period. Of a rate above
  // 1,000, a run has the takes within a thousandth of the period, as of its end.
  stepLog(s, now, q, count) {
    const end = run => run.at + this.period;
    let runs = (s.runs || []).filter(run => end(run) > now).map(run => ({ ...run }));
    const ts = s.ts === undefined ? now : Math.max(now, s.ts);
    const used = runs.reduce((sum, run) => sum + run.tokens, 0);
    const balance = runs => {
      const left = this.rate - runs.reduce((sum, run) => sum + run.tokens, 0);
      const fullAfter = left < this.rate ? Math.max(0, end(runs[runs.length - 1]) - now) : 0;
      return { allowed: true, remaining: Math.max(0, left), value: left, retryAfter: 0, delay: 0, fullAfter, resetAfter: 0, taken: 0 };
    };
    const take = n => {
      const grain = this.rate <= 1000 ? 1 : Math.ceil(this.period / 1000), last = runs[runs.length - 1];
      const at = Math.max(ts + floorMod(this.phase - ts, grain), last ? last.at : -Infinity);
      if (last && last.at === at) last.tokens = Math.min(MAX_RUN, last.tokens + n);
      else runs.push({ at, tokens: Math.min(MAX_RUN, n) });
      if (runs.length > MAX_RUNS) runs.splice(0, 2, { at: runs[1].at, tokens: Math.min(MAX_RUN, runs[0].tokens + runs[1].tokens) });
      return [{ runs, ts }, { ...balance(runs), taken: n }];
    };
    const deny = n => {
      const d = { ...balance(runs), allowed: false };
      let lacking = n - (this.rate - used);
      const last = runs.find(run => (lacking -= run.tokens) <= 0);
      d.retryAfter = last ? end(last) - now : d.fullAfter;
      return [s, d];
    };
    switch (q.op) {
      case "take": case "check":
        if (count > Math.max(0, this.rate - used)) return deny(count);
        if (q.op === "take" && count > 0) return take(count);
        break;
      case "takeUpTo": {
        const n = Math.min(count, this.rate - used);
        if (n > 0) return take(n);
        if (count > 0) return deny(1);
        break;
      }
      case "charge":
        if (count > 0) return take(count);
        break;
      case "refund":
        for (let rest = count; runs.length && rest > 0;) {
          const last = runs[runs.length - 1], n = Math.min(rest, last.tokens);
          last.tokens -= n;
          rest -= n;
          if (last.tokens === 0) runs.pop();
        }
        return count > 0 && used > 0 ? [{ runs, ts: s.ts }, balance(runs)] : [s, balance(runs)];
      case "reset": return [{}, balance([])];
      case "peek": break;
      default: throw new Error("unknown operation " + q.op);
    }
    return [s, balance(runs)];
  }
}

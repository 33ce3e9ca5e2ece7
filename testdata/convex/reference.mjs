// Prints random traces of one key each, decided by Convex's published rate limiter on a database in memory: one JSON
// object a line, in the format of convex.jsonl, with the error of a step that the package refuses. See README.md.
//
//	node reference.mjs [STEPS] [SEED]
import { rateLimit } from "./node_modules/@convex-dev/rate-limiter/dist/component/lib.js";

const [steps, seed] = [process.argv[2] ?? 300_000, process.argv[3] ?? 1].map(Number);
const traceSteps = 100;

let state = seed >>> 0;
// random is mulberry32, so that a seed makes the same traces everywhere.
function random() {
  state = (state + 0x6d2b79f5) >>> 0;
  let t = Math.imul(state ^ (state >>> 15), state | 1);
  t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
  return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
}
const upTo = (n) => Math.floor(random() * (n + 1));
const pick = (...choices) => choices[upTo(choices.length - 1)];

let now = 0;
Date.now = () => now;

// table is the part of a Convex database that the package uses for one key.
function table() {
  let row = null;
  return {
    get row() { return row; },
    query: () => ({ withIndex: () => ({ unique: async () => row && { ...row } }) }),
    insert: async (_, fields) => { row = { _id: "row", ...fields }; },
    patch: async (_, id, fields) => { row = { ...row, ...fields }; },
  };
}

function config() {
  const rate = pick(1, 2, 3, 7, 10, 97, 1000, 40_000, 1e9 + 7, 7e11, 999_999_999_999_989);
  const c = {
    kind: pick("token bucket", "fixed window"),
    rate,
    period: pick(1, 7, 1000, 2500, 60_000, 90_000, 3_600_000, 86_400_000, 31_536_000_000),
    capacity: pick(undefined, Math.ceil(rate / 2), Math.min(2 * rate, 1e15)),
    maxReserved: pick(undefined, 1, Math.min(rate, 1e15 - 1), Math.min(2 * rate + 1, 1e15 - 1)),
  };
  if (c.kind === "fixed window") c.start = upTo(c.period);
  return c;
}

for (let done = 0; done < steps; done += traceSteps) {
  const c = config();
  const db = table();
  const trace = [];
  now = Date.UTC(2030, 0, 1) + upTo(c.period);
  for (let i = 0; i < Math.min(traceSteps, steps - done); i++) {
    const most = c.capacity ?? c.rate;
    const step = {
      now,
      count: Math.max(1, pick(1, upTo(most), upTo(Math.ceil(most / 10)), most, most + 1)),
      reserve: random() < 0.3,
    };
    try {
      const status = await rateLimit._handler({ db }, { name: "limit", config: c, count: step.count, reserve: step.reserve });
      Object.assign(step, { ok: status.ok, retryAfter: status.retryAfter ?? 0 });
    } catch (e) {
      step.error = e.message;
    }
    Object.assign(step, { value: db.row?.value ?? null, ts: db.row?.ts ?? null });
    trace.push(step);
    // Some requests are retried after retryAfter.
    now += pick(0, 0, 1, upTo(c.period), upTo(5 * c.period), Math.ceil(c.period / c.rate), Math.min(Math.ceil(step.retryAfter ?? 0), 2 ** 40));
    if (now > 4e12) now = 4e12;
  }
  process.stdout.write(JSON.stringify({ config: c, steps: trace }) + "\n") || await new Promise((r) => process.stdout.once("drain", r));
}

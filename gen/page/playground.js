// The playgrounds of the page: requests on one or more limits at once, in time that can be paused.
const SVG = "http://www.w3.org/2000/svg";
const MODES = { off: "This limit is off: below, it is shown as if it was enforced.", block: "This limit blocks everything: below, it is shown as if it was enforced." };

// make creates an element of HTML, or of SVG if the tag begins with "svg:".
function make(tag, attributes, ...children) {
  const element = tag.startsWith("svg:") ? document.createElementNS(SVG, tag.slice(4)) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

const grouped = n => Math.round(n).toLocaleString("en-US");

// inWords writes a duration with two units at most: "1m 30s".
function inWords(ns) {
  if (!(ns < 2 ** 62)) return "forever";
  const units = [["d", 864e11], ["h", 36e11], ["m", 6e10], ["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];
  const i = units.findIndex(([, size]) => ns >= size);
  if (i < 0) return "0s";
  const [name, size] = units[i], whole = Math.floor(ns / size), next = units[i + 1];
  if (!next || whole >= 20) return whole + name;
  const rest = Math.floor((ns - whole * size) / next[1]);
  return rest > 0 ? whole + name + " " + rest + next[0] : whole + name;
}

// roundStep returns a step of a slider for numbers of this size.
const roundStep = n => n <= 40 ? 1 : 10 ** (Math.floor(Math.log10(n)) - 1);

// span is the number of tokens between a full key and one that denies everything.
const span = rule => rule.capacity + Math.min(rule.debt || 0, 2 * Math.max(rule.capacity, rule.rate));

// unit is the natural time of a rule, in nanoseconds: that in which a key fills up.
function unit(rule) {
  const fill = span(rule) / rule.rate * rule.period;
  return rule.kind === "token bucket" ? fill : Math.max(fill, rule.period);
}

const holdsSlots = lane => lane.numbers.kind === "in flight";

const SECONDS_PER_UNIT = 8; // of real time, at speed 1
const UNITS_SHOWN = 2.5;
const W = 480, L = 66, R = 470, T = 8, B = 100;
const OUTCOMES = [["allowed", "ok", B + 14], ["delayed", "late", B + 28], ["denied", "no", B + 42]];

// Lane is one limit of a playground: its rule, the state of its key, and what has happened in the time shown.
class Lane {
  constructor(config) {
    this.config = config;
    this.use(config.rule);
    this.curve = make("svg:path", { class: "line" });
    this.edges = make("svg:path", { class: "edge" });
    this.grid = make("svg:path", { class: "grid" });
    this.thresholds = make("svg:path", { class: "edge late" });
    this.high = make("svg:text", { class: "e", x: L - 6 });
    this.low = make("svg:text", { class: "e", x: L - 6 });
    this.marks = OUTCOMES.map(([, style]) => make("svg:path", { class: style + " s1" }));
    this.labels = OUTCOMES.map(([name, , y]) => make("svg:text", { class: "e", x: L - 6, y: y + 4 }, name));
    this.status = make("p", { class: "status" });
    this.svg = make("svg:svg", { class: "rl", role: "img", viewBox: `0 0 ${W} ${B + 54}`, "aria-label": (config.name ? config.name + ": " : "") + (holdsSlots(this) ? "free slots" : "tokens") + " over time, and requests below; the text after it has the numbers" },
      this.grid, this.thresholds, this.edges, this.curve, this.high, this.low, ...this.labels, ...this.marks);
    this.element = make("div", { class: "lane" }, ...(config.name ? [make("h4", {}, config.name)] : []),
      ...(MODES[config.mode] ? [make("p", {}, MODES[config.mode])] : []), this.svg, this.status);
    this.clear();
  }

  use(rule) { this.rule = new Rule(rule); this.numbers = rule; }

  clear() {
    this.state = {};
    this.points = [];
    this.events = [];
    this.counts = [0, 0, 0];
    this.deniedOf = this.rule.priorities.map(() => 0);
    this.warned = 0;
    this.last = null;
    this.running = []; // the holders of slots that run: {fence, next, end}, of which next is when they renew or, at end, release
    this.lost = 0;
    this.crashes = 0;
  }

  // hit sends a request, of the class with a number, and returns the decision. If it acquires slots, its holder runs as settings say.
  hit(now, count, reserve, settings, number) {
    this.sample(now);
    const shadow = this.config.mode === "shadow";
    const priority = this.rule.priorities[number];
    const [state, d] = this.rule.step(this.state, now, { op: "take", count, reserve: reserve && this.rule.debt > 0, leaves: priority && priority.leaves });
    this.state = state;
    this.sample(now);
    const outcome = !d.allowed ? 2 : d.delay > 0 ? 1 : 0;
    if (d.fence !== undefined && holdsSlots(this) && settings) {
      this.crashes += settings.crashing;
      if (this.crashes >= 1) this.crashes--; // it neither renews nor releases
      else this.running.push(this.nextOf({ fence: d.fence, end: now + Math.max(1, Math.round(settings.running * this.rule.period)) }, now));
    }
    this.events.push({ at: now, outcome });
    this.counts[outcome]++;
    if (outcome === 2 && priority) this.deniedOf[number]++;
    if (d.crossed) this.warned++;
    this.last = d;
    if (shadow && outcome) d.shadowed = true;
    return d;
  }

  // nextOf sets when a holder renews, as Slot.Do does, or releases.
  nextOf(holder, now) {
    holder.next = Math.min(holder.end, now + Math.max(1, Math.floor(this.rule.period / 3)));
    return holder;
  }

  // release ends the request that has run longest, and returns whether there is one.
  release(now) {
    const holder = this.running.shift();
    if (holder) this.stepHolder(holder, "release", now);
    return !!holder;
  }

  // stepHolder renews or releases the slots of a holder, and returns whether it still had them.
  stepHolder(holder, op, now) {
    this.sample(now);
    const [state, d] = this.rule.step(this.state, now, { op, fence: holder.fence });
    this.state = state;
    this.sample(now);
    if (d.error) this.lost++;
    return !d.error;
  }

  // runSlots renews and releases what is due up to now, with the jumps of the curve where slots become free.
  runSlots(from, now) {
    for (;;) {
      const due = this.running.reduce((first, h) => !first || h.next < first.next ? h : first, undefined);
      const ends = (this.state.holders || []).map(h => h.end).filter(end => end > from && end <= now);
      const end = Math.min(...ends, due ? due.next : Infinity);
      if (!(end <= now)) return;
      if (!due || due.next > end) {
        this.sample(end - 1);
        this.sample(end);
        from = end;
        continue;
      }
      const held = this.stepHolder(due, due.next >= due.end ? "release" : "renew", due.next);
      if (due.next >= due.end || !held) this.running.splice(this.running.indexOf(due), 1);
      else this.nextOf(due, due.next);
    }
  }

  sample(now) {
    const d = this.rule.step(this.state, now, { op: "peek" })[1];
    this.points.push({ at: now, value: d.value });
    return d;
  }

  // advance adds the tokens up to now to the curve, with the jump at each start of a window and at the end of each run of a
  // precise one, and the bend at the time at which the key is full.
  advance(from, now) {
    if (holdsSlots(this)) this.runSlots(from, now);
    const ends = this.rule.precise ? (this.state.runs || []).map(run => run.at + this.rule.period) : [];
    if (this.rule.firstUse && this.state.ts !== undefined) ends.push(this.state.ts + this.rule.period);
    if (this.rule.kind === "token bucket") ends.push(from + this.rule.step(this.state, from, { op: "peek" })[1].fullAfter);
    for (const end of ends.filter(end => from < end && end <= now)) {
      this.sample(end - 1);
      this.sample(end);
    }
    if (this.rule.algorithm.windowed && !this.rule.precise && !this.rule.firstUse) {
      let edge = this.rule.windowEnd(from);
      for (let n = 0; edge <= now && n < 50; n++, edge = this.rule.windowEnd(edge)) {
        this.sample(edge - 1);
        this.sample(edge);
      }
    }
    this.sample(now);
  }

  draw(now, view) {
    const from = now - view;
    while (this.points.length > 2 && this.points[1].at < from) this.points.shift();
    while (this.events.length && this.events[0].at < from) this.events.shift();
    const x = at => Math.max(L, L + (at - from) / view * (R - L)).toFixed(1);
    const most = Math.max(this.rule.capacity, 1), least = Math.min(0, ...this.points.map(p => p.value));
    const height = v => B - (Math.max(v, least) - least) / (most - least) * (B - T);
    const y = v => height(v).toFixed(1);
    this.curve.setAttribute("d", this.points.map((p, i) => (i ? "L" : "M") + x(p.at) + " " + y(p.value)).join(""));
    this.grid.setAttribute("d", `M${L} ${y(most)}H${R}M${L} ${y(0)}H${R}`);
    const levels = [...(this.rule.warn || []).map(percent => 100 - percent), ...this.rule.priorities.map(({ leaves }) => leaves).filter(leaves => leaves > 0)];
    this.thresholds.setAttribute("d", levels.map(percent => `M${L} ${y(this.rule.capacity * percent / 100)}H${R}`).join(""));
    this.high.textContent = grouped(most);
    this.high.setAttribute("y", height(most) + 4);
    this.low.textContent = "0";
    this.low.setAttribute("y", height(0) + 4);
    this.edges.setAttribute("d", this.windowStarts(from, now).map(at => `M${x(at)} ${T}V${B + 50}`).join(""));
    for (const [i, [, , laneY]] of OUTCOMES.entries()) {
      const shape = [(px, py) => `M${px} ${py}h0`, (px, py) => `M${px - 3} ${py}a3 3 0 1 0 6 0a3 3 0 1 0-6 0M${px} ${py}v-3M${px} ${py}h3`,
        (px, py) => `M${px - 3} ${py - 3}l6 6m0-6l-6 6`][i];
      this.marks[i].setAttribute("d", this.events.filter(e => e.outcome === i).map(e => shape(+x(e.at), laneY)).join(""));
      const hidden = i === 1 && !(this.rule.debt > 0);
      this.labels[i].style.display = hidden ? "none" : "";
    }
  }

  windowStarts(from, now) {
    const list = [];
    if (!this.rule.algorithm.windowed || this.rule.precise || this.rule.firstUse) return list;
    for (let at = this.rule.windowEnd(from); at <= now && list.length < 60; at = this.rule.windowEnd(at)) list.push(at);
    return list;
  }

  describe(now) {
    const d = this.rule.step(this.state, now, { op: "peek" })[1];
    const [allowed, delayed, denied] = this.counts;
    const warned = this.rule.warn ? ` Warned ${grouped(this.warned)} times.` : "";
    if (holdsSlots(this)) {
      this.status.textContent = `${grouped(this.rule.capacity - d.value)} of ${grouped(this.rule.capacity)} slots in use. ` +
        `Acquired ${grouped(allowed)}, denied ${grouped(denied)}${this.lost ? `, lost ${grouped(this.lost)}` : ""}.` + warned +
        (d.fullAfter > 0 ? ` All are free in ${inWords(d.fullAfter)}, unless released before or renewed.` : "");
      return;
    }
    let text = `${grouped(d.remaining)} of ${grouped(this.rule.capacity)} tokens left`;
    if (d.value <= -1) text += `, ${grouped(-d.value)} reserved ahead`;
    text += `. Allowed ${grouped(allowed)}`;
    if (this.rule.debt > 0) text += `, delayed ${grouped(delayed)}`;
    const ofClasses = this.rule.priorities.map(({ name }, i) => `${name} ${grouped(this.deniedOf[i] || 0)}`).join(", ");
    text += `, denied ${grouped(denied)}${ofClasses && ": " + ofClasses}.${warned}`;
    text += d.fullAfter > 0 ? ` Full in ${inWords(d.fullAfter)}.` : " Full.";
    this.status.textContent = text;
  }
}

// outcomeInWords describes a decision on a hit.
function outcomeInWords(d, slots) {
  return verdict(d, slots) + (d.crossed ? `, warning at ${d.crossed}%` : "");
}

function verdict(d, slots) {
  if (d.error) return "denied, " + d.error;
  if (slots && !d.shadowed) return d.allowed ? `acquired, ${grouped(d.remaining)} free` : `denied, free in ${inWords(d.retryAfter)} at the latest`;
  if (d.shadowed) return "allowed in shadow mode, would be " + (d.allowed ? "delayed" : "denied");
  if (!d.allowed && d.penaltyFor) return "denied, penalty for " + inWords(d.penaltyFor) + ", retry after " + inWords(d.retryAfter);
  if (!d.allowed) return "denied, retry after " + inWords(d.retryAfter);
  return d.delay > 0 ? "reserved, use after " + inWords(d.delay) : "allowed, " + grouped(d.remaining) + " left";
}

// Playground fills an element with a playground of {plans: [{name, lanes: [{name, mode, rule}]}], per}. per is the period in
// words.
class Playground {
  constructor(element, config) {
    this.config = config;
    this.plan = config.plans[0];
    this.lanes = this.plan.lanes.map(lane => new Lane(lane));
    this.edited = this.leading.numbers;
    this.live = make("p", { class: "live", role: "status" });
    this.controls = make("div", { class: "sliders" });
    this.pause = make("button", { type: "button", onclick: () => this.run(!this.running) });
    element.append(make("div", { class: "buttons" },
      make("button", { type: "button", class: "hit", onclick: () => this.hit(1) }, this.tokens ? "Hit" : "Acquire"),
      make("button", { type: "button", onclick: () => this.hit(10) }, this.tokens ? "Hit 10 times" : "Acquire 10 times"),
      ...(this.slots ? [make("button", { type: "button", onclick: () => this.release() }, "Release one")] : []), this.pause,
      make("button", { type: "button", onclick: () => this.forward() }, "Step forward"),
      make("button", { type: "button", onclick: () => this.restart() }, "Start over")), this.live,
      make("div", { class: "lanes" }, ...this.lanes.map(lane => lane.element)), this.controls);
    this.settings = { stream: 1.5, count: 1, speed: 1, reserve: this.edited.debt > 0, running: 0.5, crashing: 0, priority: -1 };
    this.sent = 0;
    this.buildControls();
    this.restart();
    this.run(!matchMedia("(prefers-reduced-motion: reduce)").matches);
  }

  // tokens and slots say whether a lane counts tokens, or slots.
  get tokens() { return this.lanes.some(lane => !holdsSlots(lane)); }

  get slots() { return this.lanes.some(holdsSlots); }

  // leading is the lane whose numbers set the stream.
  get leading() { return this.lanes.findLast(lane => !holdsSlots(lane)) || this.lanes[this.lanes.length - 1]; }

  get view() { return UNITS_SHOWN * Math.max(...this.lanes.map(lane => unit(lane.numbers))); }

  buildControls() {
    const rule = this.edited;
    this.controls.replaceChildren();
    if (this.config.plans.length > 1) {
      const select = make("select", { onchange: () => this.usePlan(this.config.plans[select.selectedIndex]) },
        ...this.config.plans.map(plan => make("option", { selected: plan === this.plan }, plan.name)));
      this.controls.append(make("label", {}, make("span", {}, "Plan"), select));
    }
    this.settings.count = Math.max(1, Math.round(span(rule) / 12));
    const edit = change => { for (const lane of this.lanes) if (this.config.all || lane === this.leading) this.edit(lane, change); };
    const top = n => Math.max(10, 4 * n);
    if (this.tokens) this.slider("Rate", rule.rate, 1, top(rule.rate), n => `${grouped(n)} per ${this.config.per}`, n => edit({ rate: n }));
    if (this.lanes.some(lane => lane.rule.kind !== "sliding window")) {
      this.slider(this.tokens ? "Capacity" : "Slots", rule.capacity, rule.debt > 0 ? 0 : 1, top(Math.max(rule.capacity, rule.rate)), grouped, n => edit({ capacity: n }));
    }
    if (rule.debt > 0 && rule.debt < MAX_TOKENS) this.slider("Reserved ahead", rule.debt, 1, top(rule.debt), n => "at most " + grouped(n), n => edit({ debt: n }));
    if (this.slots) {
      this.slider("Each runs for", this.settings.running, 0.1, 3, n => `${n} × the hold`, n => { this.settings.running = n; }, 0.1);
      this.slider("Of which crash", this.settings.crashing, 0, 1, n => n ? `${Math.round(100 * n)} %` : "none", n => { this.settings.crashing = n; }, 0.1);
    }
    this.slider("Stream", this.settings.stream, 0, 4, n => n ? `${n} × ${this.tokens ? "the rate" : "what fits"}` : "off", n => { this.settings.stream = n; }, 0.25);
    this.slider(this.tokens ? "Tokens per request" : "Slots per request", this.settings.count, 1, Math.max(5, Math.ceil(span(rule) / 2)), grouped, n => { this.settings.count = n; });
    this.slider("Speed", this.settings.speed, 0.25, 4, n => `${n}×`, n => { this.settings.speed = n; }, 0.25);
    const priorities = this.leading.rule.priorities;
    if (priorities.length > 0) {
      const select = make("select", { onchange: () => { this.settings.priority = select.selectedIndex - 1; } },
        ...["of each priority in turn", ...priorities.map(({ name }) => name)].map((name, i) => make("option", { selected: i - 1 === this.settings.priority }, name)));
      this.controls.append(make("label", {}, make("span", {}, "Requests"), select));
    }
    if (rule.debt > 0) {
      const box = make("input", { type: "checkbox", checked: this.settings.reserve, onchange: () => { this.settings.reserve = box.checked; } });
      this.controls.append(make("label", { class: "check" }, box, make("span", {}, "Requests reserve")));
    }
  }

  slider(name, value, min, max, words, set, step) {
    const output = make("output", {}, words(value));
    const input = make("input", { type: "range", min, max, step: step || roundStep(max / 4), value, "aria-valuetext": words(value), oninput: () => {
      const n = Math.max(min, +input.value);
      output.textContent = words(n);
      input.setAttribute("aria-valuetext", words(n));
      set(n);
      this.draw();
    } });
    // A range with a step from min would not have the value of the file.
    if (!step) { input.min = Math.min(min, +input.step); input.value = value; if (+input.value !== value) { input.step = 1; input.value = value; } }
    this.controls.append(make("label", {}, make("span", {}, name), input, output));
  }

  // edit changes numbers of a rule. As in the store, what was used stays used.
  edit(lane, change) {
    const numbers = { ...lane.numbers, ...change };
    if (numbers.kind === "sliding window") numbers.capacity = numbers.rate;
    if (numbers.kind === "in flight") numbers.rate = numbers.capacity = Math.max(1, numbers.capacity);
    lane.use(numbers);
  }

  usePlan(plan) {
    this.plan = plan;
    for (const [i, lane] of this.lanes.entries()) lane.use(plan.lanes[Math.min(i, plan.lanes.length - 1)].rule);
    this.edited = this.leading.numbers;
    this.buildControls();
    this.draw();
  }

  // release ends the request of each lane that has run longest.
  release() {
    const released = this.lanes.filter(holdsSlots).filter(lane => lane.release(this.now)).length;
    this.live.textContent = released ? "released" : "nothing runs";
    this.draw();
  }

  // send sends a request on a lane at an instant, and returns the decision.
  send(lane, at) {
    const number = this.settings.priority >= 0 ? this.settings.priority : this.sent % (lane.rule.priorities.length || 1);
    return lane.hit(at, this.settings.count, this.settings.reserve, this.settings, number);
  }

  hit(times) {
    let said = [];
    for (let i = 0; i < times; i++) {
      said = this.lanes.map(lane => [lane.config.name, outcomeInWords(this.send(lane, this.now), holdsSlots(lane))]);
      this.sent++;
    }
    const last = times > 1 ? "last hit" : "hit";
    this.live.textContent = said.map(([name, words]) => `${name || last}: ${words}`).join("; ");
    this.draw();
  }

  run(on) {
    this.running = on;
    this.pause.textContent = on ? "Pause" : "Run";
    if (on) this.schedule();
    this.draw();
  }

  schedule() {
    if (this.frame) return;
    let before = performance.now();
    const frame = now => {
      this.frame = 0;
      if (!this.running || !this.pause.isConnected || this.pause.offsetParent === null) { this.frame = 0; this.sleeping = this.running; return; }
      // A page in the background has no frames: time does not pass.
      this.pass(Math.min(100, now - before) / 1000 / SECONDS_PER_UNIT * this.settings.speed * this.view / UNITS_SHOWN);
      before = now;
      this.draw();
      this.frame = requestAnimationFrame(frame);
    };
    this.frame = requestAnimationFrame(frame);
  }

  // wake goes on after the playground was hidden.
  wake() { if (this.running) this.schedule(); }

  forward() {
    this.pass(unit(this.edited) / 10);
    this.draw();
  }

  // pass lets time pass, with the requests of the stream.
  pass(ns) {
    const end = Math.floor(this.now + ns), rule = this.edited.rate ? this.leading.numbers : this.edited;
    const period = this.tokens ? rule.period : rule.period * this.settings.running;
    const interval = this.settings.count * period / (rule.rate * this.settings.stream);
    for (let sent = 0; this.settings.stream > 0 && this.streamed + interval <= end && sent < 200; sent++) {
      const at = Math.max(this.now, Math.floor(this.streamed + interval));
      for (const lane of this.lanes) {
        lane.advance(this.now, at);
        this.send(lane, at);
      }
      this.sent++;
      this.streamed += interval;
      this.now = at;
    }
    if (!(this.settings.stream > 0) || this.streamed + interval <= end) this.streamed = end;
    for (const lane of this.lanes) lane.advance(this.now, end);
    this.now = end;
  }

  restart() {
    this.now = 0;
    this.streamed = 0;
    this.live.textContent = "";
    for (const lane of this.lanes) {
      lane.clear();
      lane.sample(0);
    }
    this.draw();
  }

  draw() {
    for (const lane of this.lanes) {
      lane.draw(this.now, this.view);
      lane.describe(this.now);
    }
  }
}

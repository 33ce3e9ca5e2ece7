// run.js STEP.js CASES prints the decisions of step.js for CASES: JSON lines of {rule, steps}, where a step is
// {now, op, count, reserve}. It prints a line for each step: allowed, remaining, retryAfter, delay, fullAfter, resetAfter,
// value, penaltyFor, crossed and error.
"use strict";
const fs = require("fs"), readline = require("readline");
const Rule = new Function(fs.readFileSync(process.argv[2], "utf8") + "\nreturn Rule;")();
const out = fs.createWriteStream("/dev/stdout");
readline.createInterface({ input: fs.createReadStream(process.argv[3]) }).on("line", line => {
  const { rule, steps } = JSON.parse(line);
  const limit = new Rule(rule);
  let state = {}, lines = "";
  for (const q of steps) {
    const [next, d] = limit.step(state, q.now, q);
    state = next;
    lines += [d.allowed, d.remaining, d.retryAfter, d.delay, d.fullAfter, d.resetAfter, d.value, d.penaltyFor || 0, d.crossed || 0, d.error ? "error" : ""].join("\t") + "\n";
  }
  out.write(lines);
});

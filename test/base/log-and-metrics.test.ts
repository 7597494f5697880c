/** Tests of the format of log lines and of metrics, and of the algorithm that removes secrets from the log. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { test } from "node:test";
import { createLog } from "../../src/base/log.ts";
import { redact } from "../../src/base/redact.ts";
import type { Log } from "../../src/plugin.ts";
import { createMetrics } from "../../src/base/metrics.ts";

function keeping(level = "info"): {
  log: Log;
  lines: () => Record<string, unknown>[];
  text: () => string;
} {
  const written: string[] = [];
  const log = createLog({ level, destination: { write: (line) => void written.push(line) } });
  return {
    log,
    text: () => written.join(""),
    lines: () => written.map((line) => JSON.parse(line) as Record<string, unknown>),
  };
}

const key = `gateway_prod_${"0123456789abcdef".repeat(2)}`;

test("a line has a level, a time, the fields and the message", () => {
  const { log, lines } = keeping();
  log.warn({ upstream: "ledger", ms: 5 }, "a node was ejected");
  const [line] = lines();
  assert.equal(typeof line?.["time"], "number");
  assert.deepEqual(line, {
    level: 40,
    time: line?.["time"],
    upstream: "ledger",
    ms: 5,
    msg: "a node was ejected",
  });
});

test("a message is written unchanged, including percent signs", () => {
  const { log, lines } = keeping();
  log.info({}, "100 %s of %d");
  assert.equal(lines()[0]?.["msg"], "100 %s of %d");
});

test("lines below the level are not written, and an unknown level is an error", () => {
  const { log, lines } = keeping("warn");
  log.debug({}, "no");
  log.info({}, "no");
  log.error({}, "yes");
  assert.deepEqual(
    lines().map((line) => line["msg"]),
    ["yes"],
  );
  assert.throws(() => createLog({ level: "loud" }));
});

const isLinux = process.platform === "linux";

test("a log on a full disk does not end the process", { skip: !isLinux }, () => {
  const module = new URL("../../src/base/log.ts", import.meta.url).href;
  const program = `import { createLog, standardStream } from ${JSON.stringify(module)};
    for (const destination of [undefined, standardStream(2)]) {
      const log = createLog({ level: "info", destination });
      log.info({}, "one");
      log.fatal({}, "two");
    }
    process.exitCode = 5;`;
  const full = openSync("/dev/full", "w");
  const args = ["--input-type=module", "--eval", program];
  const { status } = spawnSync(process.execPath, args, { stdio: ["ignore", full, full] });
  closeSync(full);
  assert.equal(status, 5);
});

test("a child adds its fields to every line", () => {
  const { log, lines } = keeping();
  log.child({ plugin: "meter" }).info({ n: 1 }, "m");
  assert.equal(lines()[0]?.["plugin"], "meter");
});

test("an error is written with its stack", () => {
  const { log, lines } = keeping();
  log.error({ err: new Error("boom") }, "failed");
  assert.match(
    JSON.stringify(lines()[0]?.["err"]),
    /"message":"boom","stack":".*log-and-metrics\.test\.ts/,
  );
});

const secrets: readonly [string, object, string][] = [
  ["an Authorization header", { headers: { authorization: "Token hidden" } }, ""],
  ["an x-api-key header", { headers: { "x-api-key": "hidden", "X-API-Key": "hidden" } }, ""],
  ["its value with a quote in it", { headers: { Authorization: 'x"hidden' } }, ""],
  ["a cookie, deep down", { a: { b: { c: { cookie: "s=hidden", "set-cookie": "hidden" } } } }, ""],
  ["a password", { password: "hidden", passphrase: "hidden", secret: "hidden" }, ""],
  ["tokens", { token: "hidden", confirmation_token: "hidden", "api-key": "hidden" }, ""],
  ["a bearer token in a message", {}, "got Bearer hidden.hidden-hidden="],
  ["a bearer token among raw headers", { rawHeaders: ["Authorization", "Bearer hidden"] }, ""],
  ["basic credentials", { raw: "Basic hidden==" }, ""],
  ["credentials of a URL", { url: "https://user:hidden@node:9944/x" }, "postgres://hidden@db/x"],
];
for (const [what, fields, message] of secrets) {
  test(`${what} is not in the log`, () => {
    const { log, text, lines } = keeping();
    log.child(fields).error(fields, message);
    assert.equal(lines().length, 1, "still one line of JSON");
    assert.doesNotMatch(text(), /hidden/);
    assert.match(text(), /\[redacted\]/);
  });
}

test("no part of a line contains an API key: fields, messages, stacks", () => {
  const { log, text, lines } = keeping();
  log.error({ path: `/x/${key}`, err: new Error(`for ${key.toUpperCase()}`) }, `key ${key} failed`);
  assert.equal(lines().length, 1);
  assert.doesNotMatch(text(), /0123456789abcdef/i);
  assert.match(text(), /gateway_prod_\[redacted\] failed/, "its environment is left to see");
});

test("text that only resembles a secret is kept", () => {
  for (const text of [
    "gateway_batch",
    "gateway_dev_123",
    "https://node:9944/@x",
    '{"tokens":"5"}',
  ]) {
    assert.equal(redact(text), text);
  }
});

interface Parsed {
  readonly types: ReadonlyMap<string, string>;
  readonly help: ReadonlyMap<string, string>;
  readonly samples: ReadonlyMap<string, number>;
}

/** Parses the text exposition format 0.0.4 strictly. prom-client writes `Nan`, and Prometheus ignores its case. */
function parse(text: string): Parsed {
  const types = new Map<string, string>();
  const help = new Map<string, string>();
  const samples = new Map<string, number>();
  const label = String.raw`[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*"`;
  const sample = new RegExp(
    String.raw`^([a-zA-Z_:][\w:]*(?:\{${label}(?:,${label})*\})?) (Na[Nn]|[+-]Inf|[-+0-9.eE]+)$`,
  );
  assert.ok(text.endsWith("\n"));
  for (const line of text.split("\n")) {
    if (line === "") continue;
    const comment = /^# (TYPE|HELP) ([a-zA-Z_:][\w:]*) (.*)$/.exec(line);
    if (comment !== null) {
      const [, kind, name = "", rest = ""] = comment;
      const seen = kind === "TYPE" ? types : help;
      assert.ok(!seen.has(name), `${kind} of ${name} is given once`);
      seen.set(name, rest);
      continue;
    }
    const [, series = "", value = ""] = sample.exec(line) ?? assert.fail(`not a sample: ${line}`);
    assert.ok(!samples.has(series), `${series} is given once`);
    samples.set(series, value.endsWith("Inf") ? Infinity : Number(value));
  }
  return { types, help, samples };
}

test("a counter adds up per set of labels", async () => {
  const metrics = createMetrics();
  const family = metrics.counter("t_total", "Things.", ["route", "code"]);
  family.with({ route: "/a", code: "x" }).add(2);
  family.with({ route: "/a", code: "x" }).add(3);
  family.with({ code: "y", route: "/b" }).add(1);
  const { samples, types, help } = parse(await metrics.render());
  assert.equal(types.get("t_total"), "counter");
  assert.equal(help.get("t_total"), "Things.");
  assert.equal(samples.get('t_total{route="/a",code="x"}'), 5);
  assert.equal(samples.get('t_total{route="/b",code="y"}'), 1);
});

test("a series is 0 until it is changed", async () => {
  const metrics = createMetrics();
  metrics.counter("t_total", "Things.").with({});
  metrics.gauge("t_now", "Now.").with({});
  const { samples } = parse(await metrics.render());
  assert.equal(samples.get("t_total"), 0);
  assert.equal(samples.get("t_now"), 0);
});

test("a gauge has its last value, which may be negative, fractional or NaN", async () => {
  const metrics = createMetrics();
  const gauge = metrics.gauge("t_now", "Now.").with({});
  gauge.set(5);
  gauge.set(-1.5);
  assert.equal(parse(await metrics.render()).samples.get("t_now"), -1.5);
  gauge.set(NaN);
  assert.equal(parse(await metrics.render()).samples.get("t_now"), NaN);
});

test("the series of a gauge ends when nobody who asked for it needs it", async () => {
  const metrics = createMetrics();
  const [one, other] = [1, 2].map(() => metrics.gauge("t_up", "Up.", ["node"]).with({ node: "a" }));
  assert.ok(one !== undefined && other !== undefined);
  one.set(1);
  one.remove();
  assert.equal(parse(await metrics.render()).samples.get('t_up{node="a"}'), 1);
  other.remove();
  one.set(0);
  assert.deepEqual(metrics.read("t_up"), []);
  metrics.gauge("t_up", "Up.", ["node"]).with({ node: "a" }).set(1);
  assert.equal(metrics.read("t_up")[0]?.value, 1);
});

test("a histogram counts a value in its bucket and in all higher buckets", async () => {
  const metrics = createMetrics();
  const histogram = metrics.histogram("t_seconds", "Latency.", [0.1, 1, 10], ["route"]);
  const series = histogram.with({ route: "/a" });
  for (const value of [0, 0.1, 0.5, 1.5, 100]) series.observe(value);
  const { samples, types } = parse(await metrics.render());
  assert.equal(types.get("t_seconds"), "histogram");
  const bucket = (le: string) => samples.get(`t_seconds_bucket{route="/a",le="${le}"}`);
  assert.deepEqual(["0.1", "1", "10", "+Inf"].map(bucket), [2, 3, 4, 5]);
  assert.equal(samples.get('t_seconds_sum{route="/a"}'), 102.1);
  assert.equal(samples.get('t_seconds_count{route="/a"}'), 5);
});

test("label values and help texts are escaped", async () => {
  const metrics = createMetrics();
  const family = metrics.counter("t_total", "One\nline, one \\.", ["path"]);
  family.with({ path: 'a"b\\c\nd' }).add(1);
  const { samples, help } = parse(await metrics.render());
  assert.equal(samples.get(String.raw`t_total{path="a\"b\\c\nd"}`), 1);
  assert.equal(help.get("t_total"), String.raw`One\nline, one \\.`);
});

test("label values that look the same when joined are different series", () => {
  const family = createMetrics().counter("t_total", "T.", ["a", "b"]);
  assert.notEqual(family.with({ a: "x,", b: "y" }), family.with({ a: "x", b: ",y" }));
  assert.equal(family.with({ a: "x", b: "y" }), family.with({ b: "y", a: "x" }));
});

test("a metric that is declared twice shares its series", async () => {
  const metrics = createMetrics();
  metrics.counter("t_total", "T.", ["a"]).with({ a: "1" }).add(1);
  metrics.counter("t_total", "T.", ["a"]).with({ a: "1" }).add(1);
  assert.equal(parse(await metrics.render()).samples.get('t_total{a="1"}'), 2);
});

test("a metric that is declared twice with different shapes is an error", () => {
  const metrics = createMetrics();
  metrics.counter("t_total", "T.", ["a"]);
  metrics.histogram("t_seconds", "T.", [1, 2]);
  assert.throws(() => metrics.gauge("t_total", "T.", ["a"]), /t_total was declared as counter/);
  assert.throws(() => metrics.counter("t_total", "T.", ["b"]), /declared as counter\(a\)/);
  assert.throws(() => metrics.histogram("t_seconds", "T.", [1, 3]), /of 1, 2, now as/);
});

test("names that Prometheus does not accept are errors", () => {
  const metrics = createMetrics();
  for (const name of ["", "1a", "a-b", "a b", "é"]) {
    assert.throws(() => metrics.counter(name, "T."), /is not a metric name/);
  }
  for (const label of ["", "1", "a-b", "le", "__name__"]) {
    assert.throws(() => metrics.counter("t", "T.", [label]), /is not a label name/);
  }
  assert.throws(() => metrics.histogram("t", "T.", [2, 1]), /must ascend/);
  assert.throws(() => metrics.histogram("t", "T.", [NaN]), /must ascend/);
});

test("two gateways in one process have separate metrics and share the metrics of the process", async () => {
  const one = createMetrics();
  const other = createMetrics();
  one.counter("t_total", "T.").with({}).add(1);
  const ones = parse(await one.render());
  const others = parse(await other.render());
  assert.equal(ones.samples.get("t_total"), 1);
  assert.equal(others.samples.get("t_total"), undefined);
  for (const { samples } of [ones, others]) {
    assert.ok((samples.get("process_resident_memory_bytes") ?? 0) > 0);
  }
});

test("the samples of a family can be read without rendering and match the text", async () => {
  const metrics = createMetrics();
  assert.deepEqual(metrics.read("sluice_things_total"), []);
  metrics.counter("sluice_things_total", "Things.", ["kind"]).with({ kind: "a" }).add(3);
  metrics.histogram("sluice_seconds", "Time.", [1]).with({}).observe(0.5);
  assert.deepEqual(metrics.read("sluice_things_total"), [
    { metricName: "sluice_things_total", labels: { kind: "a" }, value: 3 },
  ]);
  assert.deepEqual(
    metrics.read("sluice_seconds").map(({ metricName, value }) => [metricName, value]),
    [
      ["sluice_seconds_bucket", 1],
      ["sluice_seconds_bucket", 1],
      ["sluice_seconds_sum", 0.5],
      ["sluice_seconds_count", 1],
    ],
  );
  assert.match(await metrics.render(), /^sluice_things_total\{kind="a"\} 3$/m);
});

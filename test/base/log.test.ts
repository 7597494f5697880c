/** Tests of the format of log lines, and of the algorithm that removes secrets from them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createLog } from "../../src/base/log.ts";
import { redact } from "../../src/base/redact.ts";
import type { Log } from "../../src/plugin.ts";

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

test("a child adds its fields to every line", () => {
  const { log, lines } = keeping();
  log.child({ plugin: "meter" }).info({ n: 1 }, "m");
  assert.equal(lines()[0]?.["plugin"], "meter");
});

test("an error is written with its stack", () => {
  const { log, lines } = keeping();
  log.error({ err: new Error("boom") }, "failed");
  assert.match(JSON.stringify(lines()[0]?.["err"]), /"message":"boom","stack":".*log\.test\.ts/);
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

/** Tests of the state machine that sends alerts and tries again, with a manual clock and a receiver in memory. */
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { setImmediate as turn } from "node:timers/promises";
import { Readable } from "node:stream";
import { after, before, mock, test } from "node:test";
import {
  Delivery,
  maxWaiting,
  type WaitingAlert,
} from "../../../plugins/alerts/alerts/delivery.ts";
import { alertMetrics } from "../../../plugins/alerts/alerts/metrics.ts";
import { createMetrics } from "../../../src/base/metrics.ts";
import { keepingLog } from "../../../src/testing/keeping-log.ts";
import { manualClock } from "../../../src/testing/clock.ts";

const key = Buffer.alloc(32, 7);
const secret = `whsec_${key.toString("base64")}`;

interface Attempt {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

before(() => void mock.method(Math, "random", () => 1));
after(() => mock.restoreAll());

/** The response to an attempt: a status, `down` (no connection), or `silent` (no response until the signal aborts). */
type Response = number | "down" | "silent";

/** `respond`: the receiver. `waiting`: alerts of an earlier delivery. */
function bench(respond: (attempt: Attempt) => Response, waiting: WaitingAlert[] = []) {
  const clock = manualClock();
  const metrics = createMetrics();
  const attempts: Attempt[] = [];
  const lines: string[] = [];
  const log = keepingLog(lines);
  const delivery = new Delivery(
    {
      url: "http://receiver.test/hook",
      secret,
      clock,
      log,
      metrics: alertMetrics(metrics),
      async send(url, { headers = {}, body, signal }) {
        const attempt = { url, headers, body: Buffer.from(body ?? []).toString() };
        attempts.push(attempt);
        const response = respond(attempt);
        if (response === "down")
          throw Object.assign(new Error("refused"), { code: "ECONNREFUSED" });
        if (response === "silent") {
          return new Promise((_, reject) => {
            signal?.addEventListener("abort", () => reject(new Error("aborted")));
          });
        }
        const noBody = Readable.from([]);
        return { statusCode: response, headers: {}, body: noBody, dump: () => Promise.resolve() };
      },
    },
    waiting,
  );
  const value = (name: string, reason?: string): number =>
    metrics
      .read(name)
      .filter(({ labels }) => reason === undefined || labels["reason"] === reason)
      .reduce((sum, sample) => sum + sample.value, 0);
  return { clock, delivery, attempts, lines, value, waiting };
}

function signatureOf({ headers, body }: Attempt): string {
  const signed = `${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${body}`;
  return `v1,${createHmac("sha256", key).update(signed).digest("base64")}`;
}

test("an alert is sent again with the same id, a new timestamp and a signature until it is accepted", async () => {
  const responses: Response[] = ["down", 302, 500, 200];
  const { clock, delivery, attempts, value, lines } = bench(() => responses.shift() ?? 200);
  delivery.add("a", "{}");
  for (const waitMs of [10_000, 20_000, 40_000]) {
    await turn();
    clock.advance(waitMs - 1);
    const earlier = attempts.length;
    await turn();
    assert.equal(attempts.length, earlier);
    clock.advance(1);
    assert.equal(attempts.length, earlier + 1);
  }
  await turn();
  assert.equal(new Set(attempts.map(({ headers }) => headers["webhook-id"])).size, 1);
  assert.equal(new Set(attempts.map(({ headers }) => headers["webhook-timestamp"])).size, 4);
  for (const attempt of attempts) {
    assert.deepEqual([attempt.url, attempt.body], ["http://receiver.test/hook", "{}"]);
    assert.match(attempt.headers["webhook-id"] ?? "", /^msg_[\w-]{36}$/);
    assert.equal(attempt.headers["webhook-signature"], signatureOf(attempt));
  }
  assert.equal(value("sluice_alerts_failed_total", "attempt"), 3);
  assert.equal(value("sluice_alerts_sent_total"), 1);
  assert.equal(value("sluice_alerts_waiting"), 0);
  clock.advance(3_600_000);
  await turn();
  assert.equal(attempts.length, 4);
  assert.equal(lines.filter((line) => line.includes("trying again")).length, 1);
});

test("alerts arrive in order: the next one waits for the one before", async () => {
  let isUp = false;
  const { clock, delivery, attempts, value } = bench(() => (isUp ? 200 : 503));
  delivery.add("first", "1");
  delivery.add("second", "2");
  await turn();
  assert.deepEqual(
    attempts.map(({ body }) => body),
    ["1"],
  );
  assert.equal(value("sluice_alerts_waiting"), 2);
  isUp = true;
  clock.advance(10_000);
  await turn();
  await turn();
  assert.deepEqual(
    attempts.map(({ body }) => body),
    ["1", "1", "2"],
  );
});

test("a receiver that does not respond in time is asked again", async () => {
  let isSilent = true;
  const { clock, delivery, attempts, lines } = bench(() => (isSilent ? "silent" : 200));
  delivery.add("a", "{}");
  clock.advance(10_000);
  await turn();
  assert.match(lines[0] ?? "", /no answer in time/);
  isSilent = false;
  clock.advance(10_000);
  await turn();
  assert.equal(attempts.length, 2);
});

test("an alert is given up after twelve attempts, and the next one is sent", async () => {
  const { clock, delivery, attempts, value, lines } = bench(({ body }) =>
    body === "bad" ? 400 : 200,
  );
  delivery.add("a", "bad");
  delivery.add("b", "good");
  for (let attempt = 0; attempt < 12; attempt++) {
    await turn();
    clock.advance(600_000);
  }
  await turn();
  assert.equal(attempts.filter(({ body }) => body === "bad").length, 12);
  assert.equal(attempts.filter(({ body }) => body === "good").length, 1);
  assert.equal(value("sluice_alerts_failed_total", "given up"), 1);
  assert.ok(lines.some((line) => line.includes("given up")));
  assert.equal(value("sluice_alerts_waiting"), 0);
});

test("the number of waiting alerts is bounded", async () => {
  const { delivery, value, waiting } = bench(() => "down");
  for (let at = 0; at < maxWaiting + 3; at++) delivery.add("a", String(at));
  await turn();
  assert.equal(waiting.length, maxWaiting);
  assert.equal(value("sluice_alerts_failed_total", "full"), 3);
});

test("a closed delivery sends nothing more, and the next one sends what is left", async () => {
  const first = bench(() => "silent");
  first.delivery.add("a", "left");
  first.delivery.close();
  await turn();
  first.delivery.add("a", "also left");
  first.clock.advance(3_600_000);
  await turn();
  assert.equal(first.attempts.length, 1);
  assert.equal(first.value("sluice_alerts_failed_total"), 0);
  const second = bench(() => 200, first.waiting);
  await turn();
  await turn();
  assert.deepEqual(
    second.attempts.map(({ body }) => body),
    ["left", "also left"],
  );
  assert.equal(second.attempts[0]?.headers["webhook-id"], first.attempts[0]?.headers["webhook-id"]);
});

/** Tests of the state machine of a document that is read repeatedly, with a manual clock, and of how a rate is found in it. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type RequestListener, type ServerResponse } from "node:http";
import { test } from "node:test";
import {
  PolledDocument,
  type DocumentOptions,
} from "../../../../plugins/inference/networks/polled-document.ts";
import { closed, listening } from "../../../e2e/rpc-node.ts";
import { observed, type Observed } from "./observed-services.ts";
import { openTokenRate } from "../../../../plugins/inference/networks/token-rate.ts";
import { startWorker } from "./scripted-worker.ts";

const inTime = { timeout: 10_000 };
const timeoutMs = 5_000;
const ageSeries = 'sluice_polled_document_read_timestamp_seconds{document="d"}';
const failureSeries = 'sluice_polled_document_failures_total{document="d"}';

interface Polled extends AsyncDisposable {
  readonly seen: Observed;
  readonly document: PolledDocument<number>;
  readonly reported: readonly number[];
  /** Advances the time to the next reading and waits for its end. Returns the pause before the reading after it. */
  readAgain(): Promise<number>;
  readonly firstPause: Promise<number>;
  readonly headers: readonly (string | undefined)[];
}

/** A document `{ "n": 1 }` of a server that answers like this, polled every ten seconds without jitter. */
async function poll(
  answer: RequestListener,
  over: Partial<DocumentOptions<number>> = {},
): Promise<Polled> {
  const headers: (string | undefined)[] = [];
  const server = createServer((req, res) => {
    headers.push(req.headers.authorization);
    answer(req, res);
  });
  const url = `${await listening(server)}/document`;
  const seen = observed();
  const reported: number[] = [];
  const pauses = (): Promise<number> => seen.timer((ms) => ms !== timeoutMs);
  const firstPause = pauses();
  const document = new PolledDocument<number>({
    ...seen,
    name: "d",
    url,
    everyMs: 10_000,
    random: () => 0.5,
    read: (value) =>
      typeof value === "object" && value !== null && "n" in value && typeof value.n === "number"
        ? value.n
        : undefined,
    changed: (value) => void reported.push(value),
    ...over,
  });
  let next = firstPause;
  return {
    seen,
    document,
    reported,
    headers,
    firstPause,
    async readAgain() {
      const pause = await next;
      next = pauses();
      seen.clock.advance(pause);
      return next;
    },
    async [Symbol.asyncDispose]() {
      document.close();
      await closed(server);
    },
  };
}

function says(text: string, status = 200): RequestListener {
  return (_, res) => void res.writeHead(status).end(text);
}

test("a document is read at once and after intervals that vary by a tenth", inTime, async () => {
  let n = 0;
  const headers = { authorization: "Bearer x" };
  await using polled = await poll((_, res) => void res.end(`{"n":${++n}}`), { headers });
  await polled.document.firstReading;
  assert.deepEqual(polled.reported, [1]);
  for (let reading = 0; reading < 2; reading++) assert.equal(await polled.readAgain(), 10_000);
  assert.deepEqual(polled.reported, [1, 2, 3]);
  assert.deepEqual(polled.headers, Array(3).fill("Bearer x"));
  assert.equal(polled.seen.value(failureSeries), 0);
  assert.deepEqual(polled.seen.lines, []);
  for (const [random, pause] of [
    [0, 9_000],
    [0.25, 9_500],
    [1, 11_000],
  ] as const) {
    await using varied = await poll(says('{"n":1}'), { random: () => random });
    assert.equal(Math.round(await varied.firstPause), pause);
  }
});

for (const [everyMs, pauses] of [
  [10_000, [10_000, 20_000, 40_000, 60_000, 60_000]],
  [90_000, [90_000, 90_000]],
] as const) {
  test(`failures double an interval of ${everyMs} ms up to a minute`, inTime, async () => {
    let answer = says('{"n":0}');
    await using polled = await poll((req, res) => answer(req, res), { everyMs });
    assert.equal(await polled.firstPause, everyMs);
    answer = says("", 503);
    for (const pause of pauses) assert.equal(await polled.readAgain(), pause);
    answer = says('{"n":1}');
    assert.equal(await polled.readAgain(), everyMs);
    assert.deepEqual(polled.reported, [0, 1]);
  });
}

test("a document that was never read is asked for every two seconds", inTime, async () => {
  let answer = says("", 503);
  const logged: object[] = [];
  const log = { ...observed().log, warn: (about: object) => void logged.push(about) };
  const server = createServer((req, res) => answer(req, res));
  const url = await listening(server);
  const secret = url.replace("http://", "http://user:secret@");
  await using polled = await poll(says(""), { url: `${secret}/v1/models?key=secret`, log });
  const pauses = [await polled.firstPause];
  for (let n = 0; n < 4; n++) pauses.push(await polled.readAgain());
  assert.deepEqual(pauses, [2_000, 2_000, 2_000, 2_000, 2_000]);
  assert.deepEqual(logged, [{ document: "d", address: `${url}/v1/models`, reason: "status 503" }]);
  answer = says('{"n":1}');
  assert.equal(await polled.readAgain(), 10_000);
  assert.deepEqual(polled.reported, [1]);
  await closed(server);
});

test("an error in the reader of a document does not end the polling", inTime, async () => {
  let n = 0;
  await using polled = await poll(says('{"n":1}'), {
    changed: () => {
      n++;
      throw new Error("a bug");
    },
  });
  await polled.firstPause;
  await polled.readAgain();
  assert.equal(n, 2);
  assert.match(polled.seen.lines.join(), /error the value of a polled document could not be used/);
});

test("the last value stays in use, with the time when it was read", inTime, async () => {
  let answer = says('{"n":1}');
  await using polled = await poll((req, res) => answer(req, res));
  assert.equal(polled.seen.value(ageSeries), 0);
  await polled.document.firstReading;
  const readAt = polled.seen.clock.now() / 1000;
  assert.equal(polled.seen.value(ageSeries), readAt);
  answer = says("garbage");
  await polled.readAgain();
  await polled.readAgain();
  assert.deepEqual(polled.reported, [1]);
  assert.equal(polled.seen.value(ageSeries), readAt);
  assert.equal(polled.seen.value(failureSeries), 2);
  answer = says('{"n":2}');
  await polled.readAgain();
  assert.deepEqual(polled.reported, [1, 2]);
  assert.equal(polled.seen.value(ageSeries), polled.seen.clock.now() / 1000);
  assert.deepEqual(polled.seen.lines, [
    "warn a polled document could not be read; the last value stays in use",
    "info a polled document can be read again",
  ]);
});

const mebibyte = 1024 * 1024;

const failures = [
  ["garbage", says("<html>")],
  ["an empty body", says("")],
  ["JSON of another shape", says("[]")],
  ["bytes that are no text", (_, res) => void res.end(Buffer.of(0xff, 0xfe, 0))],
  ["a redirect", (_, res) => void res.writeHead(302, { location: "/other" }).end()],
  ["another good status", says('{"n":1}', 203)],
  ["a status of its own", says('{"n":1}', 404)],
  ["a connection that is cut", (req) => void req.socket.destroy()],
  [
    "a body that is cut",
    (req, res) => {
      res.writeHead(200, { "content-length": 100 });
      res.write('{"n":1}', () => req.socket.destroy());
    },
  ],
  [
    "a body without an end",
    (_, res) => {
      const more = (error?: Error | null): void => {
        if (!error) res.write(" ".repeat(mebibyte), more);
      };
      more();
    },
  ],
  ["a body that is too long", says(`{"n":1}${" ".repeat(4 * mebibyte)}`)],
  [
    "a coded body",
    (_, res) => void res.writeHead(200, { "content-encoding": "gzip" }).end(Buffer.of(31, 139, 8)),
  ],
] satisfies [string, RequestListener][];

test("any other answer is a failed reading", inTime, async () => {
  for (const [name, answer] of failures) {
    await using polled = await poll(answer);
    await polled.document.firstReading;
    assert.deepEqual(polled.reported, [], name);
    assert.equal(polled.seen.value(failureSeries), 1, name);
  }
  // Nothing listens on this port.
  await using refused = await poll(says(""), { url: "http://127.0.0.1:9/" });
  await refused.document.firstReading;
  assert.equal(refused.seen.value(failureSeries), 1);
});

const unended = [
  ["no head", () => {}],
  ["no body", (_, res) => res.writeHead(200).flushHeaders()],
  ["half a body", (_, res) => void res.writeHead(200).write('{"n":')],
  ["a refusal without an end", (_, res) => void res.writeHead(503).write("x")],
] satisfies [string, RequestListener][];

test("a reading that does not end stops after five seconds", inTime, async () => {
  for (const [name, answer] of unended) {
    const asked = Promise.withResolvers<void>();
    await using polled = await poll((req, res) => {
      answer(req, res);
      asked.resolve();
    });
    await asked.promise;
    polled.seen.clock.advance(timeoutMs);
    await polled.document.firstReading;
    assert.equal(polled.seen.value(failureSeries), 1, name);
    assert.equal(await polled.firstPause, 2_000);
  }
});

test("close aborts a running reading, reports nothing and leaves no timer", inTime, async () => {
  const asked = Promise.withResolvers<ServerResponse>();
  await using polled = await poll((_, res) => asked.resolve(res));
  const left = once(await asked.promise, "close");
  polled.document.close();
  await left;
  await polled.document.firstReading;
  assert.deepEqual(polled.reported, []);
  assert.equal(polled.seen.value(failureSeries), 0);
  assert.deepEqual(polled.seen.timers, [timeoutMs]);
});

const everyMs = 30_000;
const day = 86_400_000;

test("a rate is fixed, also at 0, or undefined if none is configured", async () => {
  for (const usd of ["0.25", "0", undefined]) {
    const config = usd === undefined ? undefined : ({ kind: "fixed", usd } as const);
    const rate = openTokenRate(config, { ...observed(), name: "n" });
    await rate.firstReading;
    assert.equal(rate.usd, usd);
    rate.close();
  }
});

const document = {
  price: "0.25",
  data: { usd: 1.5, list: [{ at: "0.5" }, 2], small: 1.5e-7, zero: 0 },
  "a/b": { "m~n": "3", "": "4", "~1": "5" },
  "0": "6",
};

const readings = [
  ["/price", document, "0.25"],
  ["/data/usd", document, "1.5"],
  ["/data/list/0/at", document, "0.5"],
  ["/data/list/1", document, "2"],
  ["/data/small", document, "0.00000015"],
  ["/a~1b/m~0n", document, "3"],
  ["/a~1b/", document, "4"],
  ["/a~1b/~01", document, "5"],
  ["/0", document, "6"],
  ["", "7.5", "7.5"],
  ["/0", [0.5], "0.5"],
  ["/data/list/2", document, undefined],
  ["/data/list/-", document, undefined],
  ["/data/list/01", document, undefined],
  ["/data/list/length", document, undefined],
  ["/data/list/at", document, undefined],
  ["/data", document, undefined],
  ["/missing/price", document, undefined],
  ["/price/0", document, undefined],
  ["/constructor/name", document, undefined],
  ["/__proto__", document, undefined],
  ["", document, undefined],
  ["/data/zero", document, undefined],
  ["/price", { price: "0.000" }, undefined],
  ["/price", { price: "0.0001" }, "0.0001"],
  ["/price", { price: -0.25 }, undefined],
  ["/price", { price: "-0.25" }, undefined],
  ["/price", { price: 1e300 }, undefined],
  ["/price", { price: "1e3" }, undefined],
  ["/price", { price: null }, undefined],
  ["/price", { price: "" }, undefined],
  ["/price", { price: true }, undefined],
] as const;

test("a pointer finds a decimal above 0, or there is no rate", inTime, async () => {
  await using server = await startWorker();
  const url = `${server.url}/rate`;
  for (const [pointer, document_, usd] of readings) {
    server.documents.set("/rate", JSON.stringify(document_));
    const rate = openTokenRate(
      { kind: "polled", url, pointer, everyMs, maxAgeMs: day },
      { ...observed(), name: "n" },
    );
    await rate.firstReading;
    assert.equal(rate.usd, usd, `${pointer} of ${JSON.stringify(document_)}`);
    rate.close();
  }
});

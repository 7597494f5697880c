/** Tests of the state machine of a charge: the hooks of the step `meter`, with a stand-in for the service `metering`. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type {
  Charge,
  ChargeLine,
  CuRefusal,
  Meter,
  MeterUnavailable,
  Principal,
  Reservation,
  ReservedFor,
} from "sluice-gateway/services";
import meter from "../../../plugins/billing/meter/index.ts";
import { createMetrics } from "../../../src/base/metrics.ts";
import { LiveResponseHead } from "../../../src/pipeline/run/response-head.ts";
import type { Exchange, Host, Reply, StepHooks } from "../../../src/plugin.ts";
import {
  bodyOf,
  fakeExchange,
  fakeHead,
  fakeHost,
  fakeMetering,
  keyPrincipal,
  missing,
} from "../fakes.ts";

/** Records how the step used one reservation. `isForced`: it was reserved without a limit. */
interface Taken {
  readonly costMilliCu: number;
  readonly about: ReservedFor;
  readonly isForced: boolean;
  lines: readonly ChargeLine[] | undefined;
  released: boolean;
}

/** A meter that always has credit. */
class FakeMeter implements Meter {
  readonly taken: Taken[] = [];
  /** The result of the next `reserve`, instead of a reservation. */
  answer: CuRefusal | MeterUnavailable | undefined;
  /** If set, `reserve` answers after this promise. */
  delay: Promise<void> | undefined;
  /** The promise that `settle` returns. */
  written: Promise<void> = Promise.resolve();

  #take(costMilliCu: number, about: ReservedFor, isForced: boolean): Reservation {
    const taken: Taken = { costMilliCu, about, isForced, lines: undefined, released: false };
    this.taken.push(taken);
    return {
      kind: "reserved",
      costMilliCu,
      settle: (lines) => {
        taken.lines = lines;
        return this.written;
      },
      release: () => void (taken.released ||= taken.lines === undefined),
    };
  }

  readonly reserve: Meter["reserve"] = (_principal, costMilliCu, about) => {
    const result = () => this.answer ?? this.#take(costMilliCu, about, false);
    return this.delay === undefined ? result() : this.delay.then(result);
  };

  readonly reserveWithoutLimit: Meter["reserveWithoutLimit"] = (_principal, costMilliCu, about) =>
    this.answer?.kind === "unavailable" ? this.answer : this.#take(costMilliCu, about, true);

  get released(): readonly boolean[] {
    return this.taken.map(({ released }) => released);
  }
}

interface Started {
  readonly hooks: StepHooks;
  readonly fake: FakeMeter;
  readonly x: Exchange;
  readonly charge: Charge;
  readonly reply: Reply | void;
  readonly metrics: ReturnType<typeof createMetrics>;
}

/** Returns the hooks with the state of the exchange `x`, which the pipeline passes to them. */
function hooksOf(step: Awaited<ReturnType<typeof meter.start>>, x: Exchange): StepHooks {
  const state = step.createState?.(x);
  assert.ok(state !== undefined);
  return {
    requestHeaders: () => step.requestHeaders?.(x, state),
    responseHeaders: (_, head) => step.responseHeaders?.(x, head, state),
    responseEnd: (_, outcome) => step.responseEnd?.(x, outcome, state),
    settled: (_, outcome) => step.settled?.(x, outcome, state),
  };
}

/** Runs the hooks of one exchange on the way down. */
async function enter(
  options: {
    price?: number;
    mode?: Host["mode"];
    principal?: Principal;
    prepare?: (fake: FakeMeter) => void;
  } = {},
): Promise<Started> {
  const { price, mode = "enforce", principal = keyPrincipal(), prepare } = options;
  const fake = new FakeMeter();
  prepare?.(fake);
  const metrics = createMetrics();
  const host = fakeHost({ mode, metrics }, { metering: fakeMetering(fake) });
  const x = fakeExchange({ slots: { principal, requestId: "req-1" } });
  const hooks = hooksOf(await meter.start(price === undefined ? {} : { price }, host), x);
  const reply = await hooks.requestHeaders?.(x);
  return { hooks, fake, x, charge: x.get("charge"), reply, metrics };
}

const streamedHead = (status = 200): LiveResponseHead =>
  new LiveResponseHead({ status }, "surface", true);
const failing = (): Promise<void> => {
  const promise = Promise.reject(new Error("disk"));
  promise.catch(() => {});
  return promise;
};
const calls = [
  { method: "chain_getBlock", costMilliCu: 1_000 },
  { method: "system_chain", costMilliCu: 100 },
];
const refusal = { kind: "refused", window: "24h", usedMilliCu: 90, limitMilliCu: 100 } as const;
const down = { kind: "unavailable" } as const;
const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

test("a charge contains the request id, the name of the surface and the route", async () => {
  const { hooks, fake, x, charge, reply } = await enter();
  assert.equal(reply, undefined);
  assert.equal(charge.reserve(1_500), undefined);
  assert.equal(charge.usedMilliCu, undefined);
  charge.settle(calls);
  assert.equal(charge.usedMilliCu, 1_100);
  const about = { requestId: "req-1", surface: "test", route: "/{any}" };
  const lines = calls.map((call) => ({ ...call, surface: "test" }));
  const more = { costMilliCu: 1_500, isForced: false, released: false };
  const forAbout = { ...about, agent: undefined, streamed: undefined };
  assert.deepEqual(fake.taken, [{ about: forAbout, lines, ...more }]);
  const head = fakeHead();
  await hooks.responseHeaders?.(x, head);
  assert.equal(head.get("x-used-cu-milli"), "1100");
  assert.equal(await hooks.responseEnd?.(x), undefined);
  hooks.settled?.(x, "complete");
  assert.deepEqual(fake.released, [false]);
});

test("if a charge cannot be written, the client gets 503 instead of the answer", async () => {
  const { hooks, x, charge } = await enter({ prepare: (fake) => void (fake.written = failing()) });
  await charge.reserve(1_100);
  charge.settle(calls);
  const reply = await hooks.responseEnd?.(x);
  assert.equal(reply?.status, 503);
  assert.equal(bodyOf(reply)["error_code"], "GATEWAY_SERVICE_UNAVAILABLE");
  assert.equal(x.facts.store, "the charge could not be written to the journal");
  // The log must not report a charge either.
  assert.equal(charge.usedMilliCu, undefined);
});

test("credit that is reserved but not charged is released, however the exchange ends", async () => {
  const outcomes = ["complete", "replied", "clientLeft", "upstreamFailed", "timedOut"] as const;
  for (const outcome of outcomes) {
    const { hooks, fake, x, charge } = await enter();
    await charge.reserve(500);
    await charge.reserve(300);
    await charge.open(1);
    hooks.settled?.(x, outcome);
    assert.deepEqual(fake.released, [true, true, true], outcome);
  }
});

test("a request above the limit gets 429 with details, and a part above it the refusal", async () => {
  for (const [window, more] of [
    ["24h", { window: "24h" }],
    ["30d", { window: "30d" }],
    [undefined, {}],
  ] as const) {
    const { hooks, fake, x, charge } = await enter();
    fake.answer = { ...refusal, window };
    const reply = await charge.reserve(50);
    assert.deepEqual([reply?.status, reply?.code], [429, "GATEWAY_CU_LIMIT_EXCEEDED"]);
    assert.deepEqual(reply?.headers, ["content-type", "application/json", "retry-after", "60"]);
    const details = { ...more, used_cu_milli: 90, limit_cu_milli: 100 };
    assert.deepEqual(bodyOf(reply)["details"], details);
    const head = new LiveResponseHead(reply ?? { status: 0 }, "surface", false);
    await hooks.responseHeaders?.(x, head);
    assert.equal(head.get("x-used-cu-milli"), undefined);
    assert.equal(await hooks.responseEnd?.(x), undefined);
    assert.deepEqual(charge.open(1), fake.answer);
    hooks.settled?.(x, "complete");
    assert.deepEqual(fake.taken, []);
  }
});

test("while the journal cannot be written, a reservation is refused with 503 and Retry-After", async () => {
  const { fake, charge, x } = await enter();
  fake.answer = { kind: "unavailable", reason: "the journal cannot be written" };
  const reply = await charge.reserve(50);
  assert.equal(reply?.status, 503);
  assert.equal(x.facts.store, "the journal cannot be written");
  assert.deepEqual(reply?.headers?.slice(2), ["retry-after", "5"]);
});

test("an exchange that ends while credit is asked for releases the credit when it comes", async () => {
  const asked = Promise.withResolvers<void>();
  const { hooks, fake, x, charge } = await enter({
    prepare: (slow) => void (slow.delay = asked.promise),
  });
  const reserving = charge.reserve(50);
  const opening = charge.open(70);
  const detached = charge.open(90, { detached: true });
  hooks.settled?.(x, "clientLeft");
  asked.resolve();
  assert.equal((await reserving)?.status, 503);
  assert.deepEqual(await opening, down);
  assert.deepEqual(fake.released, [true, true, false]);
  const part = await detached;
  assert.ok("release" in part);
  part.release();
  assert.equal(fake.taken[2]?.released, true);
});

test("credit that arrives after the client has left is released, while the surface still runs", async () => {
  const asked = Promise.withResolvers<void>();
  const { fake, x, charge } = await enter({
    prepare: (slow) => void (slow.delay = asked.promise),
  });
  const reserving = charge.reserve(50);
  const opening = charge.open(70);
  Object.defineProperty(x, "aborted", { value: true });
  asked.resolve();
  assert.equal((await reserving)?.status, 503);
  assert.deepEqual(await opening, down);
  assert.deepEqual(fake.released, [true, true]);
});

test("a second reservation adds to the first, and one charge ends both", async () => {
  const { fake, charge } = await enter();
  await charge.reserve(500);
  await charge.reserve(400);
  charge.settle(calls);
  assert.equal(charge.usedMilliCu, 900, "at most what is reserved");
  assert.deepEqual(fake.released, [false, true]);
  assert.deepEqual([fake.taken[0]?.lines?.length, fake.taken[1]?.lines], [2, undefined]);
});

test("work without a reservation is charged, and if that fails the answer is not sent", async () => {
  const charged = await enter();
  charged.charge.settle(calls);
  const [taken] = charged.fake.taken;
  assert.deepEqual([taken?.costMilliCu, taken?.isForced, taken?.lines?.length], [1_100, true, 2]);
  assert.throws(() => charged.charge.settle(calls), /once/);
  const refused = await enter({ prepare: (fake) => void (fake.answer = down) });
  refused.charge.settle(calls);
  assert.equal(refused.charge.usedMilliCu, undefined);
  assert.equal((await refused.hooks.responseEnd?.(refused.x))?.status, 503);
});

test("an invalid charge line is a bug of the surface: the client gets 500, and the surface gets no exception", async () => {
  const broken = Promise.reject(new RangeError("NaN is not an amount in milli-CU"));
  broken.catch(() => {});
  const { charge, hooks, x } = await enter({ prepare: (fake) => void (fake.written = broken) });
  charge.settle([{ method: "m", costMilliCu: NaN }]);
  const reply = await hooks.responseEnd?.(x);
  assert.equal(reply?.code, "GATEWAY_INTERNAL_ERROR");
});

test("X-Used-CU-Milli is 0 for a free answer and missing for answers of steps, refusals and streams", async () => {
  const { hooks, x } = await enter();
  const notFound = { status: 404, code: "GATEWAY_NOT_FOUND" } as const;
  for (const [head, said] of [
    [fakeHead(), "0"],
    [new LiveResponseHead({ status: 200 }, "step", false), undefined],
    [new LiveResponseHead(notFound, "surface", false), undefined],
    [streamedHead(), undefined],
  ] as const) {
    await hooks.responseHeaders?.(x, head);
    assert.equal(head.get("x-used-cu-milli"), said);
  }
});

test("a caller without a key cannot be charged", async () => {
  const { fake, charge } = await enter({ principal: missing });
  assert.equal((await charge.reserve(1))?.status, 401);
  assert.deepEqual(charge.open(1), down);
  assert.deepEqual(fake.taken, []);
});

test("parts reserve, settle and release separately, and the answer waits for all of them", async () => {
  const { hooks, fake, x, charge } = await enter();
  const [first, second, third] = [charge.open(1_000), charge.open(100), charge.open(10)];
  assert.ok("settle" in first && "settle" in second && "settle" in third);
  first.settle([{ method: "a", costMilliCu: 900 }]);
  fake.written = failing();
  second.settle([{ method: "b", costMilliCu: 100 }]);
  fake.written = Promise.resolve();
  const late = charge.open(5);
  assert.ok("settle" in late);
  late.settle([{ method: "c", costMilliCu: 5 }]);
  third.release();
  assert.equal(charge.usedMilliCu, 1_005);
  assert.deepEqual(fake.released, [false, false, true, false]);
  assert.equal((await hooks.responseEnd?.(x))?.status, 503);
});

/** Charges one part of an exchange that stays open, as a connection does for each message. */
async function chargePart(charge: Charge): Promise<Reply | undefined> {
  const part = await charge.open(1, { detached: true });
  assert.ok("settle" in part);
  part.settle([{ method: "a", costMilliCu: 1 }]);
  return part.written();
}

test("an exchange with 10,000 charges keeps none of the commits that are on disk, except the last ones", async () => {
  const { hooks, fake, x, charge } = await enter();
  const commits: WeakRef<Promise<void>>[] = [];
  for (let count = 0; count < 10_000; count++) {
    fake.written = turn();
    commits.push(new WeakRef(fake.written));
    assert.equal(await chargePart(charge), undefined);
  }
  // A weak reference keeps its target until the turn of the event loop ends.
  await turn();
  setFlagsFromString("--expose-gc");
  // V8 adds the function `gc` to contexts that are created from now on.
  (runInNewContext("gc") as () => void)();
  const kept = commits.filter((reference) => reference.deref() !== undefined).length;
  assert.ok(kept <= 5, `${kept} commits are kept`);
  assert.equal(charge.usedMilliCu, 10_000);
  assert.equal(await hooks.responseEnd?.(x), undefined);
});

test("a commit that could not be written is remembered, and the end waits for one that is being written", async () => {
  const { hooks, fake, x, charge } = await enter();
  fake.written = failing();
  assert.equal((await chargePart(charge))?.status, 503);
  fake.written = Promise.resolve();
  for (let count = 0; count < 3; count++) assert.equal(await chargePart(charge), undefined);
  assert.equal((await hooks.responseEnd?.(x))?.status, 503);

  const later = await enter();
  const disk = Promise.withResolvers<void>();
  later.fake.written = disk.promise;
  const first = chargePart(later.charge);
  await turn();
  later.fake.written = Promise.resolve();
  assert.equal(await chargePart(later.charge), undefined);
  let ended = false;
  const end = Promise.resolve(later.hooks.responseEnd?.(later.x)).finally(() => (ended = true));
  await turn();
  assert.equal(ended, false);
  disk.reject(new Error("disk"));
  assert.equal((await end)?.status, 503);
  assert.equal((await first)?.status, 503);
});

test("a price is reserved before the surface runs, and charged for every answer of the surface with a status below 500", async () => {
  for (const [head, isCharged] of [
    [fakeHead(), true],
    [streamedHead(), true],
    [streamedHead(404), true],
    [streamedHead(502), false],
    [new LiveResponseHead({ status: 200 }, "step", false), false],
    [new LiveResponseHead({ status: 500 }, "surface", false), false],
  ] as const) {
    const { hooks, fake, x, reply } = await enter({ price: 250 });
    assert.equal(reply, undefined);
    assert.equal(fake.taken[0]?.costMilliCu, 250);
    await hooks.responseHeaders?.(x, head);
    const line = { method: "GET /{any}", costMilliCu: 250, surface: "test" };
    assert.deepEqual(fake.taken[0]?.lines, isCharged ? [line] : undefined);
    if (isCharged) assert.equal(head.get("x-used-cu-milli"), head.streamed ? undefined : "250");
    assert.equal(await hooks.responseEnd?.(x), undefined);
    hooks.settled?.(x, "complete");
    assert.deepEqual(fake.released, [!isCharged]);
  }
});

test("a price above the limit, or one that cannot be charged now, is refused before the surface runs", async () => {
  const poor = await enter({ price: 250, prepare: (fake) => void (fake.answer = refusal) });
  assert.equal(poor.reply?.status, 429);
  const broken = await enter({ price: 250, prepare: (fake) => void (fake.answer = down) });
  assert.equal(broken.reply?.status, 503);
  broken.hooks.settled?.(broken.x, "replied");
});

test("the first byte of a stream does not wait, and the last byte waits for the charge", async () => {
  const disk = Promise.withResolvers<void>();
  const { hooks, fake, x, charge } = await enter({
    prepare: (one) => void (one.written = disk.promise),
  });
  await charge.reserve(10, { streamed: true });
  assert.equal(fake.taken[0]?.about.streamed, true);
  assert.equal(hooks.responseHeaders?.(x, streamedHead()), undefined);
  charge.settle(calls);
  const end = hooks.responseEnd?.(x);
  assert.ok(end instanceof Promise);
  disk.reject(new Error("disk"));
  assert.equal((await end)?.status, 503);
});

const shadowCount = async ({ metrics }: Started, scope: string): Promise<number> => {
  const counter = new RegExp(`sluice_meter_shadow_refusals_total\\{scope="${scope}"\\} (\\d+)`);
  return Number(counter.exec(await metrics.render())?.[1] ?? 0);
};

test("in shadow mode a request above the limit is counted, served and charged", async () => {
  const started = await enter({
    mode: "shadow",
    price: 250,
    prepare: (fake) => void (fake.answer = refusal),
  });
  assert.equal(started.reply, undefined);
  assert.equal(started.fake.taken[0]?.isForced, true);
  await started.hooks.responseHeaders?.(started.x, fakeHead());
  assert.equal(started.fake.taken[0]?.lines?.length, 1);
  assert.equal(await shadowCount(started, "24h"), 1);
  assert.ok("settle" in started.charge.open(7));
  assert.equal(await shadowCount(started, "24h"), 2);
});

test("in shadow mode a request does not wait for credit that must be asked for", async () => {
  const asked = Promise.withResolvers<void>();
  const started = await enter({
    mode: "shadow",
    prepare: (slow) => void (slow.delay = asked.promise),
  });
  const { fake, charge, hooks, x } = started;
  assert.equal(charge.reserve(1_100), undefined);
  charge.settle(calls);
  assert.equal(await hooks.responseEnd?.(x), undefined);
  hooks.settled?.(x, "complete");
  const [forced] = fake.taken;
  assert.deepEqual([fake.taken.length, forced?.isForced, forced?.lines?.length], [1, true, 2]);
  asked.resolve();
  await turn();
  // The credit that comes later is given back.
  assert.deepEqual([fake.taken[1]?.isForced, fake.taken[1]?.released], [false, true]);
  assert.equal(await shadowCount(started, "24h"), 0);
  for (const [scope, delay, answer] of [
    ["24h", Promise.resolve(), refusal],
    ["unavailable", failing(), undefined],
  ] as const) {
    const later = await enter({
      mode: "shadow",
      prepare: (slow) => void Object.assign(slow, { delay, answer }),
    });
    assert.ok("settle" in later.charge.open(7));
    await turn();
    assert.equal(await shadowCount(later, scope), 1);
  }
});

test("in shadow mode neither an unwritable journal nor a missing key stops a request", async () => {
  const mode = "shadow";
  const away = await enter({ mode, prepare: (fake) => void (fake.answer = down) });
  const lost = await enter({ mode, prepare: (fake) => void (fake.written = failing()) });
  for (const each of [away, lost]) {
    assert.equal(await each.charge.reserve(5), undefined);
    each.charge.settle(calls);
    assert.equal(await each.hooks.responseEnd?.(each.x), undefined);
    assert.equal(await shadowCount(each, "unavailable"), 1);
  }
  const nobody = await enter({ mode, principal: missing });
  assert.equal(nobody.charge.reserve(5), undefined);
  assert.ok("settle" in nobody.charge.open(5));
  assert.equal(await shadowCount(nobody, "anonymous"), 2);
});

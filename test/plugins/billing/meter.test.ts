/** Tests of the step `meter`, started alone with a stand-in for the service `metering`, and a surface that charges. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { refuse, type Awaitable, type Exchange, type Reply } from "sluice-gateway/plugin";
import type {
  Charge,
  ChargeLine,
  ChargePart,
  CuRefusal,
  Meter,
  MeterUnavailable,
  PartOptions,
  Principal,
  Reservation,
  ReservedFor,
} from "sluice-gateway/services";
import { testStep, type TestedHandler } from "sluice-gateway/testing";
import meter from "../../../plugins/billing/meter/index.ts";
import { createMetrics } from "../../../src/base/metrics.ts";
import { fakeMetering, keyPrincipal, missing } from "../fakes.ts";

/** Records how the step used one reservation. `isForced`: it was reserved without a limit. */
interface Taken {
  readonly costMilliCu: number;
  readonly about: ReservedFor;
  readonly isForced: boolean;
  lines: readonly ChargeLine[] | undefined;
  released: boolean;
}

class FakeMeter implements Meter {
  readonly taken: Taken[] = [];
  /** The result of `reserve`, instead of a reservation. */
  answer: CuRefusal | MeterUnavailable | undefined;
  delay: Promise<void> | undefined;
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

  readonly reserve: Meter["reserve"] = (_, costMilliCu, about) => {
    const result = () => this.answer ?? this.#take(costMilliCu, about, false);
    return this.delay === undefined ? result() : this.delay.then(result);
  };

  readonly reserveWithoutLimit: Meter["reserveWithoutLimit"] = (_, costMilliCu, about) =>
    this.answer?.kind === "unavailable" ? this.answer : this.#take(costMilliCu, about, true);

  get released(): readonly boolean[] {
    return this.taken.map(({ released }) => released);
  }
}

/** Answers a request. Without a result, the answer is 200. */
type Surface = (
  charge: Charge,
  fake: FakeMeter,
  x: Exchange,
) => Awaitable<Reply | "streamed" | void>;

interface Setting extends Partial<Pick<FakeMeter, "answer" | "delay" | "written">> {
  readonly on?: TestedHandler;
  readonly principal?: Principal;
}

/** The stand-ins for the next request. `charge`: the value of its slot, which the surface of `testStep` cannot read. */
const next: { surface?: Surface; fake: FakeMeter; charge?: Charge } = { fake: new FakeMeter() };
const slots = { requestId: "req-1", principal: keyPrincipal() as Principal };

const metrics = createMetrics();

/** The step, with metrics of the test, which keeps the account of the exchange. */
const step: typeof meter = {
  ...meter,
  async start(options, host) {
    const hooks = await meter.start(options, { ...host, metrics });
    const requestHeaders: typeof hooks.requestHeaders = (x, charge) => {
      next.charge = charge;
      return hooks.requestHeaders?.(x, charge);
    };
    return { ...hooks, requestHeaders };
  },
};

async function route(options: { price?: number } = {}, mode: "enforce" | "shadow" = "enforce") {
  const started = await testStep(step, {
    options,
    mode,
    slots,
    services: {
      metering: fakeMetering({
        reserve: (...args) => next.fake.reserve(...args),
        reserveWithoutLimit: (...args) => next.fake.reserveWithoutLimit(...args),
      }),
    },
    surface: {
      async answer(x) {
        assert.ok(next.charge && next.surface);
        const answered = (await next.surface(next.charge, next.fake, x)) ?? { status: 200 };
        return answered === "streamed" ? undefined : answered;
      },
    },
  });
  after(() => started[Symbol.asyncDispose]());
  return started;
}

const free = await route();
const priced = await route({ price: 250 });
const shadow = await route({}, "shadow");

function begin(surface: Surface, setting: Setting = {}) {
  const { on = free, principal = keyPrincipal(), ...members } = setting;
  let failure: unknown;
  next.surface = async (...args) => {
    try {
      return await surface(...args);
    } catch (error) {
      failure = error;
      throw error;
    }
  };
  const fake = Object.assign(new FakeMeter(), members);
  next.fake = fake;
  slots.principal = principal;
  const running = on.begin();
  const answer = running.answer.then((result) => {
    if (failure !== undefined) throw failure;
    return result;
  });
  return { ...running, answer, fake };
}

async function send(...args: Parameters<typeof begin>) {
  const { answer, fake } = begin(...args);
  return { ...(await answer), fake };
}

const failing = (reason = new Error("disk")): Promise<void> => {
  const promise = Promise.reject(reason);
  promise.catch(() => {});
  return promise;
};
const calls = [
  { method: "chain_getBlock", costMilliCu: 1_000 },
  { method: "system_chain", costMilliCu: 100 },
];
const refusal = { kind: "refused", window: "24h", usedMilliCu: 90, limitMilliCu: 100 } as const;
const down = { kind: "unavailable", reason: "the journal cannot be written" } as const;
const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

async function open(
  charge: Charge,
  costMilliCu: number,
  options?: PartOptions,
): Promise<ChargePart> {
  const part = await charge.open(costMilliCu, options);
  assert.ok("settle" in part);
  return part;
}

test("a charge contains the request id, the name of the surface and the route", async () => {
  const { headers, fake } = await send(async (charge) => {
    assert.equal(await charge.reserve(1_500), undefined);
    assert.equal(charge.usedMilliCu, undefined);
    charge.settle(calls);
    assert.equal(charge.usedMilliCu, 1_100);
  });
  const about = { requestId: "req-1", surface: "test-surface", route: "/*" };
  const lines = calls.map((call) => ({ ...call, surface: "test-surface" }));
  const more = { costMilliCu: 1_500, isForced: false, released: false };
  const forAbout = { ...about, agent: undefined, streamed: undefined };
  assert.deepEqual(fake.taken, [{ about: forAbout, lines, ...more }]);
  assert.equal(headers["x-used-cu-milli"], "1100");
});

test("a charge that cannot be written is answered with 503, and one that is invalid with 500, and neither is logged as a charge", async () => {
  for (const [error, code, store] of [
    [
      new Error("disk"),
      "GATEWAY_SERVICE_UNAVAILABLE",
      "the charge could not be written to the journal",
    ],
    // An invalid charge is a bug of the surface, which gets no exception.
    [new RangeError("NaN is not an amount"), "GATEWAY_INTERNAL_ERROR", undefined],
  ] as const) {
    const surface: Surface = (charge) => charge.settle(calls);
    const answer = await send(surface, { written: failing(error) });
    assert.deepEqual([answer.code, answer.facts.store], [code, store]);
    assert.equal(answer.facts.costMilliCu, undefined);
  }
});

test("credit that is reserved but not charged is released, however the exchange ends", async () => {
  for (const outcome of ["complete", "upstreamFailed", "timedOut", "clientLeft"] as const) {
    const running = begin(async (charge) => {
      await charge.reserve(500);
      await charge.reserve(300);
      await charge.open(1);
      if (outcome === "clientLeft") running.leave();
      return outcome === "complete" || outcome === "clientLeft"
        ? undefined
        : { status: 502, outcome };
    });
    assert.equal((await running.answer).outcome, outcome);
    assert.deepEqual(running.fake.released, [true, true, true]);
  }
});

test("a limit, an unwritable journal and a missing key refuse a reservation and a part, and a price before the surface runs", async () => {
  const details = { used_cu_milli: 90, limit_cu_milli: 100 };
  for (const [setting, code, retryAfter, expected] of [
    [{ answer: refusal }, "GATEWAY_CU_LIMIT_EXCEEDED", "60", { window: "24h", ...details }],
    [{ answer: { ...refusal, window: undefined } }, "GATEWAY_CU_LIMIT_EXCEEDED", "60", details],
    [{ answer: down }, "GATEWAY_SERVICE_UNAVAILABLE", "5", undefined],
    [{ principal: missing }, "GATEWAY_UNAUTHORIZED", undefined, undefined],
  ] as const) {
    const part =
      "answer" in setting && setting.answer.kind === "refused"
        ? setting.answer
        : { kind: "unavailable" };
    const surface: Surface = async (charge) => {
      assert.deepEqual(await charge.open(1), part);
      return charge.reserve(50);
    };
    const unused: Surface = () => assert.fail("the surface runs");
    for (const refused of [
      await send(surface, setting),
      await send(unused, { ...setting, on: priced }),
    ]) {
      const { headers, fake, facts } = refused;
      assert.equal(refused.code, code);
      assert.equal(headers["retry-after"], retryAfter);
      assert.equal(headers["x-used-cu-milli"], undefined);
      assert.deepEqual(JSON.parse(refused.body).details, expected);
      assert.equal(facts.store, retryAfter === "5" ? down.reason : undefined);
      assert.deepEqual(fake.taken, []);
    }
  }
});

test("an exchange that ends while credit is asked for releases the credit when it comes", async () => {
  const asked = Promise.withResolvers<void>();
  let results: readonly Awaitable<unknown>[] = [];
  const { fake } = await send(
    (charge) => {
      results = [charge.reserve(50), charge.open(70), charge.open(90, { detached: true })];
    },
    { delay: asked.promise },
  );
  asked.resolve();
  const [reply, opened, part] = await Promise.all(results);
  assert.equal((reply as Reply).status, 503);
  assert.deepEqual(opened, { kind: "unavailable" });
  assert.deepEqual(fake.released, [true, true, false]);
  (part as ChargePart).release();
  assert.equal(fake.taken[2]?.released, true);
});

test("credit that arrives after the client has left is released, while the surface still runs", async () => {
  const asked = Promise.withResolvers<void>();
  const running = begin(
    async (charge) => {
      await turn();
      const results = [charge.reserve(50), charge.open(70)] as const;
      running.leave();
      await turn();
      asked.resolve();
      assert.equal((await results[0])?.status, 503);
      assert.deepEqual(await results[1], { kind: "unavailable" });
      assert.deepEqual(running.fake.released, [true, true]);
    },
    { delay: asked.promise },
  );
  await running.answer;
});

test("a second reservation adds to the first, and one charge ends both", async () => {
  const { fake, facts } = await send(async (charge, used) => {
    await charge.reserve(500);
    await charge.reserve(400);
    charge.settle(calls);
    assert.deepEqual(used.released, [false, true]);
  });
  assert.equal(facts.costMilliCu, 900, "at most what is reserved");
  assert.deepEqual([fake.taken[0]?.lines?.length, fake.taken[1]?.lines], [2, undefined]);
});

test("work without a reservation is charged, and if that fails the answer is not sent", async () => {
  const charged = await send((charge) => {
    charge.settle(calls);
    assert.throws(() => charge.settle(calls), /once/);
  });
  const [taken] = charged.fake.taken;
  assert.deepEqual([taken?.costMilliCu, taken?.isForced, taken?.lines?.length], [1_100, true, 2]);
  const refused = await send((charge) => charge.settle(calls), { answer: down });
  assert.deepEqual([refused.status, refused.facts.costMilliCu], [503, undefined]);
});

test("parts reserve, settle and release separately, and the answer waits for all of them", async () => {
  const { status } = await send(async (charge, fake) => {
    const [first, second] = [await open(charge, 1_000), await open(charge, 100)];
    const third = await open(charge, 10);
    first.settle([{ method: "a", costMilliCu: 900 }]);
    fake.written = failing();
    second.settle([{ method: "b", costMilliCu: 100 }]);
    fake.written = Promise.resolve();
    (await open(charge, 5)).settle([{ method: "c", costMilliCu: 5 }]);
    third.release();
    assert.equal(charge.usedMilliCu, 1_005);
    assert.deepEqual(fake.released, [false, false, true, false]);
  });
  assert.equal(status, 503);
});

/** Charges one part of an exchange that stays open, as a connection does for each message. */
async function chargePart(charge: Charge): Promise<Reply | undefined> {
  const part = await open(charge, 1, { detached: true });
  part.settle([{ method: "a", costMilliCu: 1 }]);
  return part.written();
}

test("an exchange with 10,000 charges keeps none of the commits that are on disk, except the last ones", async () => {
  const { status, facts } = await send(async (charge, fake) => {
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
  });
  assert.deepEqual([status, facts.costMilliCu], [200, 10_000]);
});

test("a commit that could not be written is remembered, and the end waits for one that is being written", async () => {
  const remembered = await send(
    async (charge, fake) => {
      assert.equal((await chargePart(charge))?.status, 503);
      fake.written = Promise.resolve();
      for (let count = 0; count < 3; count++) assert.equal(await chargePart(charge), undefined);
    },
    { written: failing() },
  );
  assert.equal(remembered.status, 503);

  const disk = Promise.withResolvers<void>();
  let first: Promise<Reply | undefined> | undefined;
  const running = begin(
    async (charge, fake) => {
      first = chargePart(charge);
      await turn();
      fake.written = Promise.resolve();
      assert.equal(await chargePart(charge), undefined);
    },
    { written: disk.promise },
  );
  while (running.fake.taken[1]?.lines === undefined) await turn();
  for (let turns = 0; turns < 5; turns++) await turn();
  assert.equal(running.response.headersSent, false);
  disk.reject(new Error("disk"));
  assert.equal((await running.answer).status, 503);
  assert.equal((await first)?.status, 503);
});

const stream =
  (status = 200): Surface =>
  async (_charge, _fake, x) => {
    const sink = await x.stream(status, ["content-type", "text/plain"]);
    sink.write("first");
    await sink.end();
    return "streamed" as const;
  };

test("a price is charged for every answer of the surface with a status below 500, and streams and refusals have no X-Used-CU-Milli", async () => {
  for (const [on, surface, isCharged, said] of [
    [priced, () => undefined, true, "250"],
    [priced, stream(), true, undefined],
    [priced, stream(404), true, undefined],
    [priced, stream(502), false, undefined],
    [priced, () => ({ status: 500 }), false, "0"],
    [free, () => undefined, false, "0"],
    [free, () => refuse("GATEWAY_NOT_FOUND"), false, undefined],
  ] as const) {
    const { headers, fake } = await send(surface, { on });
    const line = { method: "GET /*", costMilliCu: 250, surface: "test-surface" };
    assert.deepEqual(fake.taken[0]?.lines, isCharged ? [line] : undefined);
    assert.equal(headers["x-used-cu-milli"], said);
    assert.deepEqual(fake.released, on === priced ? [!isCharged] : []);
  }
});

test("the first byte of a stream does not wait, and the last byte waits for the charge", async () => {
  const disk = Promise.withResolvers<void>();
  const running = begin(
    async (charge, fake, x) => {
      await charge.reserve(10, { streamed: true });
      charge.settle(calls);
      return stream()(charge, fake, x);
    },
    { written: disk.promise },
  );
  while (running.response.chunks.length === 0) await turn();
  assert.equal(running.fake.taken[0]?.about.streamed, true);
  for (let turns = 0; turns < 5; turns++) await turn();
  assert.equal(running.response.writableFinished, false);
  disk.reject(new Error("disk"));
  const { outcome, body } = await running.answer;
  assert.deepEqual([outcome, body], ["upstreamFailed", "first"]);
});

const refusals = (): Map<unknown, number> =>
  new Map(
    metrics
      .read("sluice_meter_shadow_refusals_total")
      .map(({ labels, value }) => [labels["scope"], value]),
  );

/** Sends a request in shadow mode. `scope`: the limit that would have refused it. */
async function shadowed(surface: Surface, setting: Setting, scope?: string) {
  const expected = refusals();
  if (scope !== undefined) expected.set(scope, (expected.get(scope) ?? 0) + 1);
  const { status, fake } = await send(surface, { on: shadow, ...setting });
  assert.equal(status, 200);
  await turn();
  assert.deepEqual(refusals(), expected);
  return fake.taken;
}
const reserving: Surface = async (charge) => {
  assert.equal(await charge.reserve(1_100), undefined);
  charge.settle(calls);
};
const opening: Surface = async (charge) => void (await open(charge, 7));

test("in shadow mode neither a limit nor an unwritable journal nor a missing key stops a request", async () => {
  const [forced] = await shadowed(reserving, { answer: refusal }, "24h");
  assert.deepEqual([forced?.isForced, forced?.lines?.length], [true, 2]);
  await shadowed(opening, { answer: refusal }, "24h");
  await shadowed(reserving, { answer: down }, "unavailable");
  await shadowed(reserving, { written: failing() }, "unavailable");
  await shadowed(opening, { principal: missing }, "anonymous");
  await shadowed(reserving, { principal: missing }, "anonymous");
});

test("in shadow mode a request does not wait for credit that must be asked for", async () => {
  const asked = Promise.withResolvers<void>();
  const taken = await shadowed(reserving, { delay: asked.promise });
  assert.deepEqual([taken.length, taken[0]?.isForced, taken[0]?.lines?.length], [1, true, 2]);
  asked.resolve();
  await turn();
  // The credit that comes later is given back.
  assert.deepEqual([taken[1]?.isForced, taken[1]?.released], [false, true]);
  await shadowed(opening, { delay: Promise.resolve(), answer: refusal }, "24h");
  await shadowed(opening, { delay: failing() }, "unavailable");
});

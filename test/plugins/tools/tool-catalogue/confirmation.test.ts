/**
 * Confirmation of write tools: what a token is bound to, where it may be sent, and how often it works. And what the
 * metrics of a plugin contain about the calls of its tools.
 */
import assert from "node:assert/strict";
import { describe, it, test } from "node:test";
import {
  type Tool,
  type ToolOutcome,
  type Tools,
  toolFailure,
  type ToolResult,
} from "sluice-gateway/services";
import type { Claims } from "../../../../src/plugin.ts";
import { StoreError } from "../../../../src/store/store-error.ts";
import {
  startCatalogue,
  toolCaller,
  bench,
  caller as simpleCaller,
  settled,
  tool,
  type Bench,
} from "./fixture.ts";

type WantedCaller = Parameters<typeof toolCaller>[0];

interface Sent {
  readonly to: string;
  readonly memo?: string;
}

function writeTool(inputs: unknown[], more: Partial<Tool<Sent>> = {}): Tool<Sent> {
  return {
    name: "send",
    description: "Sends.",
    inputSchema: {
      type: "object",
      additionalProperties: false,
      required: ["to"],
      properties: { to: { type: "string" }, memo: { type: "string" } },
    },
    price: 10_000,
    capability: "ledger:write",
    write: true,
    summarise: ({ to }) => Promise.resolve({ ok: true, summary: { to } }),
    call(input) {
      inputs.push(input);
      return { ok: true, value: "sent" };
    },
    ...more,
  };
}

async function start(more: Partial<Tool<Sent>> = {}, claim?: Claims["claim"]) {
  const inputs: unknown[] = [];
  const tools = [writeTool(inputs, more)];
  const replace = (changed: Partial<Tool<Sent>>): void => {
    tools[0] = writeTool(inputs, { ...more, ...changed });
  };
  return { ...(await startCatalogue({ acme: { tools } }, { claim })), inputs, replace };
}

async function tokenFor(catalogue: Tools, input: unknown, by?: WantedCaller): Promise<string> {
  const asked = await catalogue.call("send", input, toolCaller(by));
  assert.equal(codeOf(asked), "GATEWAY_CONFIRMATION_REQUIRED");
  const token = detailsOf(asked)["confirmation_token"];
  assert(typeof token === "string");
  return token;
}

const codeOf = (outcome: ToolOutcome): string => (outcome.ok ? "ok" : outcome.code);
const detailsOf = (outcome: ToolOutcome): Readonly<Record<string, unknown>> =>
  (outcome.ok ? undefined : outcome.details) ?? {};

const input = { to: "Bob" };

describe("a write tool", () => {
  it("runs once if two calls with its token wait for the claim at the same time", async () => {
    const { catalogue, inputs } = await start();
    const confirmationToken = await tokenFor(catalogue, input);
    const callers = [toolCaller({ confirmationToken }), toolCaller({ confirmationToken })];
    const outcomes = await Promise.all(
      callers.map(async (caller) => catalogue.call("send", input, caller)),
    );
    assert.deepEqual(outcomes.map(codeOf), ["ok", "GATEWAY_CONFIRMATION_EXPIRED"]);
    assert.deepEqual(inputs, [input]);
    assert.deepEqual(
      callers.map((caller) => [caller.charged, caller.open()]),
      [
        [["send 10000"], 0],
        [[], 0],
      ],
    );
  });

  it("does not run, and costs nothing, if its claim fails", async () => {
    const away = new StoreError("SLUICE_STORE_UNREACHABLE", "no answer", "", undefined, "postgres");
    for (const [error, code] of [
      [new Error("a bug"), "GATEWAY_INTERNAL_ERROR"],
      [away, "GATEWAY_SERVICE_UNAVAILABLE"],
    ] as const) {
      const { catalogue, inputs } = await start({}, () => Promise.reject(error));
      const caller = toolCaller({ confirmationToken: await tokenFor(catalogue, input) });
      assert.equal(codeOf(await catalogue.call("send", input, caller)), code);
      assert.deepEqual([inputs, caller.charged, caller.open()], [[], [], 0]);
    }
  });

  for (const token of [1, null, ["x"], { a: 1 }]) {
    it(`refuses ${JSON.stringify(token)} as a token by its schema`, async () => {
      const { catalogue, inputs } = await start();
      const given = { ...input, confirmation_token: token };
      const refused = await catalogue.call("send", given, toolCaller());
      assert.equal(codeOf(refused), "GATEWAY_SCHEMA_VIOLATION");
      assert.deepEqual(detailsOf(refused), {
        violations: [{ path: "/confirmation_token", reason: "must be string" }],
      });
      assert.deepEqual(inputs, []);
    });
  }

  for (const [what, summarise] of [
    ["throws in `summarise`", () => Promise.reject(new Error("a secret"))],
    ["summarises what JSON cannot say", async () => ({ ok: true, summary: { n: 1n } }) as const],
  ] as const) {
    it(`that ${what} is an internal error without details`, async () => {
      const { catalogue, errors } = await start({ summarise });
      const failed = await catalogue.call("send", input, toolCaller());
      assert.equal(codeOf(failed), "GATEWAY_INTERNAL_ERROR");
      assert(!JSON.stringify(failed).includes("secret"));
      assert.equal(errors.length, 1);
      assert.match(errors[0] ?? "", /^a tool failed/);
    });
  }

  it("whose `summarise` never ends fails after 30 seconds, and its signal aborts", async () => {
    let signal: AbortSignal | undefined;
    const { catalogue, clock } = await start({
      summarise: (_, context) => {
        ({ signal } = context);
        return new Promise(() => {});
      },
    });
    const waited = catalogue.call("send", input, toolCaller());
    clock.advance(30_000);
    assert.equal(codeOf(await waited), "GATEWAY_TOOL_EXECUTION_ERROR");
    assert.equal(signal?.aborted, true);
  });
});

describe("a confirmation token is refused", () => {
  const refused = async (catalogue: Tools, again: object, by: WantedCaller = {}): Promise<void> => {
    const caller = toolCaller(by);
    const outcome = await catalogue.call("send", again, caller);
    assert.equal(codeOf(outcome), "GATEWAY_CONFIRMATION_EXPIRED");
    assert.deepEqual(caller.charged, []);
  };

  it("when the price or the description of the tool has changed since, until the caller asks again", async () => {
    const changes: Partial<Tool<Sent>>[] = [
      { price: 20_000 },
      { price: { estimateMilliCu: 10_000, of: () => 10_000 } },
      { description: "Sends to someone else." },
      { inputSchema: { type: "object", properties: { to: { type: "string", title: "From" } } } },
    ];
    for (const change of changes) {
      const { catalogue, inputs, replace } = await start();
      const confirmation_token = await tokenFor(catalogue, input);
      replace(change);
      const caller = toolCaller();
      const outcome = await catalogue.call("send", { ...input, confirmation_token }, caller);
      assert.equal(codeOf(outcome), "GATEWAY_CONFIRMATION_EXPIRED", JSON.stringify(change));
      assert.match(outcome.ok ? "" : outcome.message, /has changed .* call again without a token/);
      assert.deepEqual([inputs, caller.charged, caller.open()], [[], [], 0]);
      const second = await tokenFor(catalogue, input);
      const again = { ...input, confirmation_token: second };
      assert.equal(codeOf(await catalogue.call("send", again, toolCaller())), "ok");
    }
  });

  it("when the price that the tool computes for these arguments has changed", async () => {
    let perCall = 10;
    const price = { estimateMilliCu: 10, of: () => perCall };
    const { catalogue, inputs } = await start({ price });
    const confirmation_token = await tokenFor(catalogue, input);
    perCall = 11;
    await refused(catalogue, { ...input, confirmation_token });
    perCall = 10;
    const caller = toolCaller();
    const done = await catalogue.call("send", { ...input, confirmation_token }, caller);
    assert.equal(codeOf(done), "ok");
    assert.deepEqual([inputs, caller.charged], [[input], ["send 10"]]);
  });

  it("when its tool was replaced while the preview was made", async () => {
    const { promise, resolve } = Promise.withResolvers<{ ok: true; summary: object }>();
    const { catalogue, replace } = await start({ summarise: () => promise });
    const asked = catalogue.call("send", input, toolCaller());
    replace({ price: 20_000 });
    assert.equal(catalogue.list[0]?.estimatedCUMilli, 20_000);
    resolve({ ok: true, summary: {} });
    const confirmation_token = detailsOf(await asked)["confirmation_token"];
    assert.equal(typeof confirmation_token, "string");
    await refused(catalogue, { ...input, confirmation_token });
  });
});

/** Returns the values of a metric by its last label, or one value for a metric without a further label. */
function counted({ metrics }: Bench, name: string): Record<string, number> {
  return Object.fromEntries(
    metrics.read(`sluice_plugin_${name}_total`).map(({ labels, value }) => {
      const { plugin, kind, hook, code, reason } = labels;
      assert.deepEqual([plugin, kind, hook], ["acme", "tools", "tool"]);
      // Sums of seconds have rounding errors.
      return [code ?? reason ?? "all", Number(value.toFixed(9))];
    }),
  );
}

test("the calls of all tools of a plugin are counted together, with the time of its code", async () => {
  const answer = Promise.withResolvers<ToolResult>();
  const b = await bench(
    tool({ name: "slow", call: () => answer.promise }),
    tool({
      name: "quick",
      call(given) {
        b.clock.advance(50);
        return { ok: true, value: given };
      },
    }),
  );
  const slow = b.call("slow", {});
  b.clock.advance(2_000);
  await b.call("quick", {});
  answer.resolve({ ok: true, value: 1 });
  assert.equal((await slow).ok, true);
  assert.deepEqual(counted(b, "timed"), { all: 2 });
  assert.deepEqual(counted(b, "seconds"), { all: 2.1 });
  for (const name of ["refusals", "errors", "timeouts"]) assert.deepEqual(counted(b, name), {});
});

test("a tool that throws is counted and timed, and distinguished from one that breaks its contract", async () => {
  const results: (() => unknown)[] = [
    () => Promise.reject(new Error("broken")),
    () => ({ ok: true, value: undefined }),
    () => ({ ok: false, code: "ACME_UNKNOWN", message: "no" }),
  ];
  // The contract does not allow these results. A plugin in JavaScript can return them.
  const b = await bench(tool({ call: () => results.shift()?.() as ToolResult }));
  while (results.length > 0) await b.call("echo", {});
  assert.deepEqual(counted(b, "errors"), { throw: 1, contract: 2 });
  assert.deepEqual(counted(b, "timed"), { all: 3 });
});

test("refusals are counted by code; a call that is refused before the tool runs is not timed", async () => {
  const b = await bench(
    tool({
      call() {
        b.clock.advance(5);
        return toolFailure("GATEWAY_CONFLICT", "taken");
      },
    }),
    tool({ name: "limited", capability: "docs:read" }),
    tool({ name: "strict", inputSchema: { type: "object", required: ["a"] } }),
  );
  await b.call("echo", {});
  await b.call("limited", {});
  await b.call("strict", {});
  await b.call("strict", { a: 1 }, simpleCaller({ credit: 0 }));
  assert.deepEqual(counted(b, "refusals"), {
    GATEWAY_CONFLICT: 1,
    GATEWAY_PERMISSION_DENIED: 1,
    GATEWAY_SCHEMA_VIOLATION: 1,
    GATEWAY_CU_LIMIT_EXCEEDED: 1,
  });
  assert.deepEqual(counted(b, "timed"), { all: 1 });
  assert.deepEqual(counted(b, "seconds"), { all: 0.005 });
  assert.deepEqual(counted(b, "errors"), {});
});

test("a tool that exceeds its time limit is counted, and its late result is not", async () => {
  const late = Promise.withResolvers<ToolResult>();
  const b = await bench(tool({ call: () => late.promise }));
  const calling = b.call("echo", {});
  await settled();
  b.clock.advance(30_000);
  const outcome = await calling;
  assert.equal(!outcome.ok && outcome.code, "GATEWAY_TOOL_EXECUTION_ERROR");
  late.resolve({ ok: true, value: 1 });
  await settled();
  assert.deepEqual(counted(b, "timeouts"), { all: 1 });
  assert.deepEqual(counted(b, "timed"), { all: 1 });
  assert.deepEqual(counted(b, "seconds"), { all: 30 });
  assert.deepEqual(counted(b, "errors"), {});
});

test("the summary of a write tool is timed as its code", async () => {
  const summarise = async (): Promise<{ ok: true; summary: object }> => {
    b.clock.advance(40);
    return { ok: true, summary: {} };
  };
  const b = await bench(tool({ write: true, summarise }));
  await b.call("echo", {});
  assert.deepEqual(counted(b, "seconds"), { all: 0.04 });
  assert.deepEqual(counted(b, "refusals"), { GATEWAY_CONFIRMATION_REQUIRED: 1 });
});

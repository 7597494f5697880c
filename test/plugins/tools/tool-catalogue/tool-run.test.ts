/** One call of one tool: all the ways in which it can end, its outcome, and its charge. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  toolFailure,
  type ToolContext,
  type ToolFailure,
  type ToolOutcome,
  type ToolResult,
} from "sluice-gateway/services";
import { bench, caller, settled, tool, type Bench, type Caller } from "./fixture.ts";

const codeOf = (outcome: ToolOutcome): string => (outcome.ok ? "ok" : outcome.code);

function never(): Promise<never> {
  return new Promise(() => {});
}

/** Calls the tool `echo` with `{}` and returns the outcome and the operations on the account. */
async function ending(b: Bench, by = caller()): Promise<[string, ...string[]]> {
  const outcome = await b.call("echo", {}, by);
  return [codeOf(outcome), ...by.charge.log];
}

describe("a call that succeeds", () => {
  it("is checked against the output schema, and charged only if it matches", async () => {
    const outputSchema = {
      type: "object",
      properties: { n: { type: "integer" } },
      required: ["n"],
    };
    const ended = async (result: ToolResult): Promise<[string, ...string[]]> =>
      ending(await bench(tool({ outputSchema, call: () => result })));
    const charged = ["ok", "open 100", "settle echo 100"];
    assert.deepEqual(await ended({ ok: true, value: { n: 1 } }), charged);
    assert.deepEqual(await ended({ ok: true, json: '{"n":1}' }), charged);
    const released = ["GATEWAY_INTERNAL_ERROR", "open 100", "release 100"];
    for (const json of ['{"n":"1"}', "{}", "[]", "1", "not JSON"]) {
      assert.deepEqual(await ended({ ok: true, json }), released, json);
    }
    const failure = toolFailure("GATEWAY_NOT_FOUND", "no such n");
    assert.deepEqual(await ended(failure), ["GATEWAY_NOT_FOUND", "open 100", "release 100"]);
  });

  it("costs what its price function returns for the input", async () => {
    const price = {
      estimateMilliCu: 200,
      of: (input: { keys: string[] }) => 200 * input.keys.length,
    };
    const by = caller();
    const outcome = await (
      await bench(tool({ price }))
    ).call("echo", { keys: ["a", "b", "c"] }, by);
    assert.equal(outcome.ok && outcome.usedCUMilli, 600);
    assert.deepEqual(by.charge.log, ["open 600", "settle echo 600"]);
  });

  it("passes the principal to the tool", async () => {
    let seen: ToolContext | undefined;
    const b = await bench(
      tool({
        call(_, context) {
          seen = context;
          return { ok: true, value: 1 };
        },
      }),
    );
    const sent: unknown[] = [];
    const by = caller({ keyId: "key_7", progress: (...of) => void sent.push(of) });
    await b.call("echo", {}, by);
    assert.equal(seen?.principal.key.id, "key_7");
    assert.equal(seen.requestId, "r1");
    assert.equal(seen.entry("echo")?.estimatedCUMilli, 100);
    assert.equal(seen.entry("toString"), undefined);
    // After the end of the call messages are dropped, and a late signal is already aborted.
    seen.progress(1, 2, "late");
    assert.deepEqual(sent, []);
    assert.equal(seen.signal.aborted, true);
  });
});

describe("a call that is refused before anything is done", () => {
  let ran = 0;
  const counted = tool({
    call() {
      ran++;
      return { ok: true, value: 1 };
    },
  });

  /** Holds the credit of a caller until the returned function is called. */
  function holdCredit({ charge }: Caller): () => void {
    const asked = Promise.withResolvers<void>();
    const open = charge.open.bind(charge);
    charge.open = (...args) => asked.promise.then(() => open(...args));
    return asked.resolve;
  }

  it("arrives while the journal cannot be written, or is from a caller that has already left", async () => {
    const before = ran;
    const unavailable = caller();
    unavailable.charge.unavailable = true;
    const b = await bench(counted);
    assert.deepEqual(await ending(b, unavailable), ["GATEWAY_SERVICE_UNAVAILABLE"]);
    const left = caller();
    left.leaves();
    assert.deepEqual(await ending(b, left), ["GATEWAY_TOOL_EXECUTION_ERROR"]);
    assert.equal(ran, before);
  });

  it("arrives while the meter must ask for its credit, and runs only after the answer", async () => {
    const before = ran;
    const by = caller();
    const giveCredit = holdCredit(by);
    const calling = ending(await bench(counted), by);
    await settled();
    assert.equal(ran, before);
    giveCredit();
    assert.deepEqual(await calling, ["ok", "open 100", "settle echo 100"]);
    assert.equal(ran, before + 1);
  });

  it("is from a caller that leaves while the meter asks for its credit", async () => {
    const before = ran;
    const by = caller();
    const giveCredit = holdCredit(by);
    const calling = ending(await bench(counted), by);
    by.leaves();
    giveCredit();
    const released = ["GATEWAY_TOOL_EXECUTION_ERROR", "open 100", "release 100"];
    assert.deepEqual(await calling, released);
    assert.equal(ran, before);
  });
});

describe("a tool that misbehaves", () => {
  const cycle: Record<string, unknown> = {};
  cycle["self"] = cycle;
  const bug = (error: string): never => {
    throw new Error(error);
  };
  /** Results that TypeScript does not allow, but JavaScript tools can return. */
  const answers = (value: unknown) => tool({ call: () => value as ToolResult });

  const asking = (requests: unknown): object => ({
    ...toolFailure("GATEWAY_INVALID_PARAMS", "x"),
    asks: { requests },
  });

  const broken: readonly [string, ReturnType<typeof tool>][] = [
    ["throws", tool({ call: () => bug("secret of an upstream") })],
    ["rejects", tool({ call: () => Promise.reject(new Error("secret of an upstream")) })],
    ["answers a cycle", tool({ call: () => ({ ok: true, value: cycle }) })],
    ["answers undefined as value", tool({ call: () => ({ ok: true, value: undefined }) })],
    [
      "answers a getter that throws",
      tool({ call: () => ({ ok: true, value: { toJSON: () => bug("x") } }) }),
    ],
    ["answers no text as json", answers({ ok: true, json: 5 })],
    ["answers null", answers(null)],
    ["fails with a code of its own", answers({ ok: false, code: "MY_CODE", message: "x" })],
    ["fails without a message", answers({ ok: false, code: "GATEWAY_NOT_FOUND" })],
    [
      "fails with details that JSON cannot say",
      answers(toolFailure("GATEWAY_NOT_FOUND", "x", { n: 1n })),
    ],
    ["adds content that JSON cannot say", answers({ ok: true, value: 1, content: [1n] })],
    ["adds content without a list", answers({ ok: true, value: 1, content: { type: "text" } })],
    ["adds a link that is no object", answers({ ok: true, value: 1, links: [null] })],
    ["asks a question that JSON cannot say", answers(asking({ a: { params: { n: 1n } } }))],
    ["asks no questions", answers(asking(undefined))],
    ["names no model", answers({ ok: true, value: 1, usage: { inputTokens: 1, outputTokens: 1 } })],
    [
      "counts tokens that are no whole numbers",
      answers({
        ok: true,
        value: 1,
        usage: { model: "m", inputTokens: Number.NaN, outputTokens: 1 },
      }),
    ],
  ];
  for (const [title, one] of broken) {
    it(`${title}: is an internal error, which is logged and not charged`, async () => {
      const b = await bench(one);
      const by = caller();
      const outcome = await b.call("echo", {}, by);
      assert.deepEqual(outcome, {
        ok: false,
        code: "GATEWAY_INTERNAL_ERROR",
        message: "internal error",
        tool: "echo",
        latencyMs: 0,
      });
      assert.deepEqual(by.charge.log, ["open 100", "release 100"]);
      assert.equal(b.errors.length, 1);
      assert.equal(codeOf(await b.call("echo", {})), "GATEWAY_INTERNAL_ERROR");
    });
  }

  for (const price of [-1, 0.5, Number.NaN, Infinity, 2 ** 53, "100", undefined]) {
    it(`has ${String(price)} as the price of an input: no charge is opened`, async () => {
      // JavaScript of a third party may return anything.
      const of = (): number => price as number;
      const b = await bench(tool({ price: { estimateMilliCu: 1, of } }));
      assert.deepEqual(await ending(b), ["GATEWAY_INTERNAL_ERROR"]);
      assert.equal(b.errors.length, 1);
    });
  }

  it("throws in its price function or in `before`", async () => {
    const price = { estimateMilliCu: 1, of: () => bug("price") };
    const wordless = () => ({ ok: false, code: "GATEWAY_NOT_FOUND" }) as ToolFailure;
    for (const more of [{ price }, { before: () => bug("before") }, { before: wordless }]) {
      assert.deepEqual(await ending(await bench(tool(more))), ["GATEWAY_INTERNAL_ERROR"]);
    }
  });

  it("returns a result too large for one string: fails and is charged, because its work is done", async () => {
    const json = " ".repeat(64 * 1024 * 1024 + 1);
    assert.deepEqual(await ending(await bench(tool({ call: () => ({ ok: true, json }) }))), [
      "GATEWAY_TOOL_EXECUTION_ERROR",
      "open 100",
      "settle echo 100",
    ]);
  });
});

describe("a tool that does not end", () => {
  it("may succeed or fail too late without any effect", async () => {
    const late = [Promise.withResolvers<ToolResult>(), Promise.withResolvers<ToolResult>()];
    let begun = 0;
    const b = await bench(tool({ call: () => late[begun++]?.promise ?? never() }));
    const by = caller();
    const calls = [b.call("echo", {}, by), b.call("echo", {}, by)];
    b.clock.advance(30_000);
    for (const outcome of await Promise.all(calls)) {
      assert.equal(codeOf(outcome), "GATEWAY_TOOL_EXECUTION_ERROR");
    }
    late[0]?.resolve({ ok: true, value: 1 });
    late[1]?.reject(new Error("too late"));
    await settled();
    assert.deepEqual(by.charge.log, ["open 100", "open 100", "release 100", "release 100"]);
    assert.deepEqual(b.errors, []);
  });
});

// Finding 5: the reservation used to be released when the caller left, although the work could not be undone.
describe("a call whose caller leaves while it runs", () => {
  it("is completed, and charged if it succeeds", async () => {
    const answers = Promise.withResolvers<ToolResult>();
    let signal: AbortSignal | undefined;
    const slow = tool({
      call(_, context) {
        ({ signal } = context);
        return answers.promise;
      },
    });
    const by = caller();
    const calling = (await bench(slow)).call("echo", {}, by);
    await settled();
    by.leaves();
    await settled();
    assert.equal(signal?.aborted, false);
    assert.deepEqual(by.charge.log, ["open 100"]);
    answers.resolve({ ok: true, value: 1 });
    assert.equal(codeOf(await calling), "ok");
    assert.deepEqual(by.charge.log, ["open 100", "settle echo 100"]);
  });
});

describe("a tool that calls tools", () => {
  const inner = tool({ name: "inner", price: 7 });

  it("does not pass its own confirmation on", async () => {
    const writes = tool({ name: "writes", write: true });
    const outer = tool({
      name: "outer",
      async call(_, context) {
        return { ok: true, value: codeOf(await context.run("writes", {})) };
      },
    });
    const b = await bench(writes, outer);
    const asked = await b.call("writes", {});
    assert(!asked.ok);
    const confirmationToken = String(asked.details?.["confirmation_token"]);
    const outcome = await b.call("outer", {}, caller({ confirmationToken }));
    assert.equal(outcome.ok && outcome.json, '"GATEWAY_CONFIRMATION_REQUIRED"');
  });

  it("fails if it calls itself without end, and nothing is charged", async () => {
    let begun = 0;
    const b = await bench(
      tool({
        async call(_, context) {
          begun++;
          const within = await context.run("echo", {});
          return within.ok ? { ok: true, value: 1 } : within;
        },
      }),
    );
    const by = caller();
    const outcome = await b.call("echo", {}, by);
    assert.equal(codeOf(outcome), "GATEWAY_TOOL_EXECUTION_ERROR");
    assert.equal(begun, 5);
    assert.equal(by.charge.log.filter((line) => line === "release 100").length, 5);
    assert.equal(by.charge.usedMilliCu, undefined);
  });

  it("ends them when its time limit is reached, and begins no more", async () => {
    let context: ToolContext | undefined;
    const gate = Promise.withResolvers<void>();
    const hanging = tool({ name: "hanging", call: never });
    const outer = tool({
      name: "outer",
      async call(_, given) {
        context = given;
        await given.run("inner", {});
        await gate.promise;
        await given.run("hanging", {});
        return { ok: true, value: 1 };
      },
    });
    const b = await bench(inner, hanging, outer);
    const by = caller();
    const calling = b.call("outer", {}, by);
    await settled();
    b.clock.advance(10_000);
    gate.resolve();
    await settled();
    // The outer call began 10 s before the one that hangs.
    b.clock.advance(20_000);
    assert.equal(codeOf(await calling), "GATEWAY_TOOL_EXECUTION_ERROR");
    await settled();
    assert.equal(
      codeOf((await context?.run("inner", {})) ?? (await never())),
      "GATEWAY_TOOL_EXECUTION_ERROR",
    );
    assert.deepEqual(by.charge.log.toSorted(), [
      "open 100",
      "open 100",
      "open 7",
      "release 100",
      "release 100",
      "settle inner 7",
    ]);
    assert.equal(by.charge.usedMilliCu, 7);
  });

  it("gets results of at most half its own maximum size", async () => {
    const json = " ".repeat(33 * 1024 * 1024);
    const large = tool({ name: "large", call: () => ({ ok: true, json }) });
    const outer = tool({
      name: "outer",
      async call(_, context) {
        return { ok: true, value: codeOf(await context.run("large", {})) };
      },
    });
    const b = await bench(large, outer);
    assert.equal(codeOf(await b.call("large", {})), "ok");
    const outcome = await b.call("outer", {});
    assert.equal(outcome.ok && outcome.json, '"GATEWAY_TOOL_EXECUTION_ERROR"');
  });
});

describe("the confirmation of a write tool", () => {
  const writes = tool({ write: true });
  const tokenOf = (outcome: ToolOutcome): string =>
    String(!outcome.ok && outcome.details?.["confirmation_token"]);

  it("is not used by a call without credit", async () => {
    const b = await bench(writes);
    const confirmation_token = tokenOf(await b.call("echo", {}));
    const poor = caller({ credit: 0 });
    const refused = await b.call("echo", { confirmation_token }, poor);
    assert.equal(codeOf(refused), "GATEWAY_CU_LIMIT_EXCEEDED");
    assert.equal(b.claimed.size, 0);
    assert.equal(codeOf(await b.call("echo", { confirmation_token })), "ok");
  });
});

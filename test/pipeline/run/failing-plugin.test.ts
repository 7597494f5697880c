/**
 * A plugin that throws, rejects or breaks its contract affects only its own request or message: each hook of a step and
 * of a surface, with each failure. Hooks that hang are tested in step-limit.test.ts, `onError: skip` in skip.test.ts,
 * services in test/http/failing-service.test.ts, and tools in test/plugins/tools/mcp/failing-plugin.test.ts.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, it } from "node:test";
import { WebSocket } from "ws";
import { createMetrics } from "../../../src/base/metrics.ts";
import type { SurfaceHooks } from "../../../src/plugin.ts";
import { manualClock } from "../../../src/testing/clock.ts";
import { ask, serve, stepCounts, type Served, type TestRoute, type TestStep } from "../harness.ts";

const broken = (): never => {
  throw new Error("broken");
};
const rejecting = (): Promise<never> => Promise.reject(new Error("broken"));

/** Ways in which a hook can fail. Plugins in JavaScript can return values that the types do not allow. */
const failures: Readonly<Record<string, () => unknown>> = {
  throws: broken,
  rejects: rejecting,
  "returns a number": () => 5,
  "returns null": () => null,
  "returns a promise of a number": () => Promise.resolve(5),
  "returns a reply that HTTP does not allow": () => ({ status: 200, headers: ["a b", "c\nd"] }),
};
const stepHooks = [
  "createState",
  "requestHeaders",
  "requestBody",
  "around",
  "responseHeaders",
  "responseChunk",
  "responseEnd",
  "settled",
] as const;

const hello: SurfaceHooks = { answer: () => ({ status: 200, body: "hello" }) };
const streaming: SurfaceHooks = {
  async answer(x) {
    const sink = await x.stream(200, []);
    sink.write(Buffer.from("one"));
    await sink.end(undefined, Buffer.from("two"));
    return undefined;
  },
};

async function costOwnRequest(...bad: readonly Omit<TestRoute, "path">[]): Promise<void> {
  let settled = 0;
  const above: TestStep = { name: "above", settled: () => void settled++ };
  await using served = await serve([
    ...bad.map((route, at) => ({
      ...route,
      path: `/bad-${at}`,
      steps: [above, ...(route.steps ?? [])],
    })),
    { path: "/good", surface: hello },
  ]);
  const body = { method: "POST", body: "x" };
  for (const at of bad.keys()) {
    for (let i = 0; i < 2; i++) {
      // The answer may be complete, a 500 or cut, but it ends.
      await ask(served, `/bad-${at}`, body).catch(() => undefined);
      const good = await ask(served, "/good", body);
      assert.deepEqual([good.status, good.body], [200, "hello"]);
    }
    while (settled < 2 * (at + 1)) await new Promise(setImmediate);
  }
  assert.equal(served.listener.running, 0);
}

describe("a step affects only its own request if", () => {
  for (const hook of stepHooks) {
    for (const [kind, surface] of Object.entries({ reply: hello, stream: streaming })) {
      it(`${hook} fails in any way, in front of a ${kind}`, async () => {
        const routes = Object.entries(failures).map(([how, failing]) => {
          // A hook that uses the state makes the core create it.
          const step: TestStep = { name: how, requestHeaders() {}, [hook]: failing };
          return { steps: [step], surface };
        });
        await costOwnRequest(...routes);
      });
    }
  }
});

/** Replies that HTTP or the contract does not allow, as plugins in JavaScript can return them. */
const nonsense: Readonly<Record<string, unknown>> = {
  "status 99": { status: 99 },
  "a status that does not end the answer": { status: 103 },
  "a line feed in a field": { status: 200, headers: ["x-a", "b\nc"] },
  "no object": true,
  null: null,
};

describe("the log names the step, and not the surface, if", () => {
  for (const [what, reply] of Object.entries(nonsense)) {
    it(`a step returns ${what}`, async () => {
      for (const hook of ["requestHeaders", "requestBody", "responseEnd"] as const) {
        const step = { name: "culprit", [hook]: () => reply } as TestStep;
        const routes = [{ path: "/x", steps: [step], surface: { body: { bytes: 9 }, ...hello } }];
        await using served = await serve(routes);
        const body = { method: "POST", body: "x" };
        assert.equal((await ask(served, "/x", body)).status, 500, hook);
        assert.match(served.errors[0] ?? "", /culprit/, hook);
      }
    });
  }

  it("a step sets an invalid status", async () => {
    const step: TestStep = {
      name: "culprit",
      responseHeaders: (_, head) => void (head.status = 1),
    };
    await using served = await serve([{ path: "/x", steps: [step], surface: hello }]);
    assert.equal((await ask(served, "/x")).status, 500);
    assert.match(served.errors[0] ?? "", /culprit/);
  });
});

describe("a surface affects only its own request if", () => {
  it("answer fails in any way", async () => {
    const answers = Object.values(failures).map((failing) => ({
      surface: { answer: failing as never },
    }));
    await costOwnRequest(...answers);
  });

  // Finding P29: the connection was cut.
  for (const body of [{ a: 1 }, 7, true, ["a"], [{}]]) {
    it(`answer returns the body ${JSON.stringify(body)}, for which the client gets 500`, async () => {
      const surface = { answer: () => ({ status: 200, body }) } as unknown as SurfaceHooks;
      const above: TestStep = { name: "above", responseHeaders() {}, responseChunk() {} };
      for (const steps of [[], [above]]) {
        await using served = await serve([{ path: "/x", steps, surface }]);
        assert.equal((await ask(served, "/x")).status, 500);
        assert.match(served.errors.join(), /surface-0/);
      }
    });
  }

  it("answer has a status after which the client would wait for another answer", async () => {
    const replying = { answer: () => ({ status: 101 }) };
    const streams: SurfaceHooks = {
      async answer(x) {
        const sink = await x.stream(103, []);
        await sink.end();
        return undefined;
      },
    };
    for (const surface of [replying, streams]) {
      await using served = await serve([{ path: "/x", steps: [], surface }]);
      assert.equal((await ask(served, "/x")).status, 500);
      assert.match(served.errors.join(), /surface-0/);
    }
  });

  it("answer fails in the middle of its stream", async () => {
    await costOwnRequest({
      surface: {
        async answer(x) {
          const sink = await x.stream(200, []);
          sink.write("one");
          return broken();
        },
      },
    });
  });

  it("answer returns without ending its stream, which is cut after two minutes", async () => {
    const surface: SurfaceHooks = {
      async answer(x) {
        const sink = await x.stream(200, []);
        sink.write("one");
        return undefined;
      },
    };
    const clock = manualClock();
    await using served = await serve([{ path: "/x", surface }], { clock });
    const response = await fetch(`${served.url}/x`);
    clock.advance(130_000);
    await assert.rejects(response.text());
    assert.match(served.errors.join(), /without ending its stream, which was cut .*"surface-0"/);
  });

  it("answer fails in a callback", async () => {
    await costOwnRequest({
      surface: {
        async answer(x) {
          x.signal.addEventListener("abort", broken);
          x.onAbort = { aborted: broken };
          const sink = await x.stream(200, []);
          sink.onDrain = broken;
          sink.fail("upstreamFailed");
          return undefined;
        },
      },
    });
  });
});

/** Answers each message with itself, or with the code of the step that has refused it. */
const echo: SurfaceHooks = {
  async answer(x) {
    const connection = await x.accept({ protocol: "test.v1", messageBytes: 1_000 });
    const closed = Promise.withResolvers<void>();
    connection.onClose = () => closed.resolve();
    connection.onMessage = (data) => {
      // The result is not awaited, so a rejection would end the process.
      void Promise.resolve(x.admit()).then((reply) =>
        connection.send(reply === undefined ? data : (reply.code ?? "no code"), true),
      );
    };
    await closed.promise;
    return undefined;
  },
};

async function connect({ port }: Served): Promise<WebSocket> {
  const client = new WebSocket(`ws://127.0.0.1:${port}/socket`, ["test.v1"]);
  await once(client, "open");
  return client;
}

async function exchange(client: WebSocket, message: string): Promise<string> {
  const closed = once(client, "close").then(() => [Buffer.from("the connection has closed")]);
  client.send(message);
  const [data] = (await Promise.race([once(client, "message"), closed])) as [Buffer];
  return data.toString();
}

describe("a step affects only the message at which", () => {
  const route = (message: NonNullable<TestStep["message"]>): TestRoute => {
    const above: TestStep = { name: "above", message() {} };
    const steps = [above, { name: "bad", message }];
    return { path: "/socket", websocket: true, steps, surface: echo };
  };
  const ofMessage = {
    ...failures,
    "returns a reply that HTTP does not allow": () => ({ status: "200" }),
  };

  for (const [how, failing] of Object.entries(ofMessage)) {
    it(`message ${how}`, async () => {
      let isBroken = true;
      const message = (): never => (isBroken ? failing() : undefined) as never;
      const metrics = createMetrics();
      await using served = await serve([route(message)], { metrics });
      const [first, second] = [await connect(served), await connect(served)];
      assert.equal(await exchange(first, "a"), "GATEWAY_INTERNAL_ERROR");
      isBroken = false;
      assert.equal(await exchange(first, "b"), "b");
      assert.equal(await exchange(second, "c"), "c");
      assert.equal(served.errors.length, 1);
      assert.match(served.errors[0] ?? "", /^a plugin failed at a message .*"plugin":"bad"/);
      // The failure is counted for the step, and not for the surface.
      assert.deepEqual(stepCounts(metrics, "errors"), { bad: 1 });
      for (const client of [first, second]) client.close();
    });
  }

  it("message hangs", async () => {
    const clock = manualClock();
    const hanging = Promise.withResolvers<void>();
    let isHanging = true;
    const message = (): Promise<void> | undefined => {
      if (!isHanging) return undefined;
      hanging.resolve();
      return new Promise(() => {});
    };
    const metrics = createMetrics();
    await using served = await serve([route(message)], { clock, metrics });
    const client = await connect(served);
    const answer = exchange(client, "a");
    await hanging.promise;
    clock.advance(31_000);
    assert.equal(await answer, "GATEWAY_INTERNAL_ERROR");
    isHanging = false;
    assert.equal(await exchange(client, "b"), "b");
    assert.deepEqual(stepCounts(metrics, "timeouts"), { bad: 1 });
    client.close();
  });
});

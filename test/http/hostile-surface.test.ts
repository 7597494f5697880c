/** A surface that throws or rejects in any function that the core calls fails only its own exchange, and only once. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { describe, it } from "node:test";
import { WebSocket } from "ws";
import type { Connection, Exchange, SurfaceHooks } from "../../src/plugin.ts";
import { manualClock } from "../../src/testing/clock.ts";
import { ask, serve, type Served, type TestStep } from "../pipeline/harness.ts";

const bug = (): never => {
  throw new Error("a bug in a callback");
};
/** An `async` callback, as the types of the contract allow it: they ignore the result of a callback. */
const laterBug = (): void => Promise.reject(new Error("a bug in a callback")) as unknown as void;
const never = new Promise<never>(() => {});
const fine: SurfaceHooks = { answer: () => ({ status: 200, body: "fine" }) };

function settling(): { readonly step: TestStep; readonly first: Promise<unknown>; count: number } {
  const { promise: first, resolve } = Promise.withResolvers<unknown>();
  const counted = {
    first,
    count: 0,
    step: {
      name: "settling",
      settled(x: Exchange) {
        if (x.route.path !== "/hostile") return;
        counted.count++;
        resolve(undefined);
      },
    },
  };
  return counted;
}

/** Serves the surface, calls it with `use`, and asserts that other requests are served as before. */
async function assertSurvives(
  surface: SurfaceHooks,
  use: (served: Served) => Promise<unknown>,
  websocket = false,
): Promise<readonly string[]> {
  const settled = settling();
  await using served = await serve([
    { path: "/hostile", surface, websocket, steps: [settled.step] },
    { path: "/fine", surface: fine },
  ]);
  await use(served);
  await settled.first;
  assert.equal((await ask(served, "/fine")).body, "fine");
  assert.equal(served.listener.running, 0);
  assert.equal(settled.count, 1);
  return served.errors;
}

/** Leaves after a request over its own socket. node:http handles bodies of unknown length, the fast path the others. */
async function leave({ port }: Served, fields = ""): Promise<void> {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => {});
  socket.write(`GET /hostile HTTP/1.1\r\nHost: h\r\n${fields}\r\n`);
  await once(socket, "data");
  socket.destroy();
}

/** A surface that streams until the client cannot receive more, and a client that starts to read only then. */
function fillsUp(onDrain: () => void): {
  readonly surface: SurfaceHooks;
  readonly read: (served: Served, fields: string) => Promise<void>;
} {
  const full = Promise.withResolvers<void>();
  return {
    surface: {
      async answer(x) {
        const sink = await x.stream(200, []);
        const chunk = Buffer.alloc(1 << 20);
        while (sink.write(chunk));
        sink.onDrain = onDrain;
        full.resolve();
        return never;
      },
    },
    async read({ port }, fields) {
      const socket = connect(port, "127.0.0.1");
      socket.on("error", () => {});
      socket.pause();
      socket.write(`GET /hostile HTTP/1.1\r\nHost: h\r\n${fields}\r\n`);
      await full.promise;
      socket.resume();
      await once(socket, "close");
    },
  };
}

const waits = (prepare: (x: Exchange) => void): SurfaceHooks => ({
  async answer(x) {
    prepare(x);
    const sink = await x.stream(200, []);
    sink.write("x");
    return never;
  },
});

/** The field that makes node:http handle a request. */
const paths = [
  { title: "fast path", fields: "" },
  { title: "node:http", fields: "Expect: 100-continue\r\n" },
];

for (const { title, fields } of paths) {
  describe(`a streaming surface (${title})`, () => {
    for (const [kind, callback] of Object.entries({ throws: bug, rejects: laterBug })) {
      it(`its onDrain ${kind}`, async () => {
        const { surface, read } = fillsUp(callback);
        const errors = await assertSurvives(surface, (served) => read(served, fields));
        assert.match(errors.join(), /a plugin failed .*"plugin":"surface-0"/);
      });
    }

    it("its onAbort throws", async () => {
      const surface = waits((x) => (x.onAbort = { aborted: bug }));
      const errors = await assertSurvives(surface, (served) => leave(served, fields));
      assert.equal(errors.length, 1);
    });

    it("a listener of its signal throws, and another listener is still called", async () => {
      let called = 0;
      const surface = waits((x) => {
        x.signal.addEventListener("abort", bug);
        x.signal.addEventListener("abort", { handleEvent: laterBug });
        x.signal.addEventListener("abort", () => called++, { once: true });
        const removed = (): void => void (called += 100);
        x.signal.addEventListener("abort", removed);
        x.signal.removeEventListener("abort", removed);
      });
      const errors = await assertSurvives(surface, (served) => leave(served, fields));
      assert.equal(called, 1);
      assert.equal(errors.length, 2);
    });
  });
}

describe("a WebSocket surface", () => {
  const use = (set: (connection: Connection) => void): SurfaceHooks => ({
    async answer(x) {
      set(await x.accept({ protocol: undefined, messageBytes: 1 << 20 }));
      return never;
    },
  });
  const open = async ({ port }: Served): Promise<WebSocket> => {
    const client = new WebSocket(`ws://127.0.0.1:${port}/hostile`);
    client.on("error", () => {});
    await once(client, "open");
    return client;
  };

  for (const [kind, callback] of Object.entries({ throws: bug, rejects: laterBug })) {
    it(`its onMessage ${kind}`, async () => {
      const surface = use((connection) => (connection.onMessage = callback));
      await assertSurvives(
        surface,
        async (served) => {
          const client = await open(served);
          client.send("one");
          client.send("two");
          await once(client, "close");
        },
        true,
      );
    });

    it(`its onClose ${kind}`, async () => {
      const surface = use((connection) => (connection.onClose = callback));
      await assertSurvives(surface, async (served) => (await open(served)).close(1000), true);
    });

    it(`its onGoAway ${kind}`, async () => {
      const surface = use((connection) => (connection.onGoAway = callback));
      await assertSurvives(
        surface,
        async (served) => {
          const client = await open(served);
          served.listener.beginDrain();
          await once(client, "close");
        },
        true,
      );
    });

    it(`its onDrain ${kind}`, async () => {
      const filled = Promise.withResolvers<void>();
      const surface = use((connection) => {
        connection.onDrain = callback;
        while (connection.send(Buffer.alloc(1 << 16)));
        filled.resolve();
      });
      await assertSurvives(
        surface,
        async (served) => {
          const client = new WebSocket(`ws://127.0.0.1:${served.port}/hostile`);
          client.on("error", () => {});
          client.on("upgrade", ({ socket }) => {
            socket.pause();
            void filled.promise.then(() => socket.resume());
          });
          await once(client, "close");
        },
        true,
      );
    });
  }
});

it("a surface that never returns after its client has left is settled after a time limit, and the log names it", async () => {
  const clock = manualClock();
  const settled = settling();
  const left = Promise.withResolvers<void>();
  const surface = waits((x) => (x.onAbort = { aborted: () => left.resolve() }));
  await using served = await serve([{ path: "/hostile", surface, steps: [settled.step] }], {
    clock,
  });
  await leave(served);
  await left.promise;
  const old = await served.reload([{ path: "/fine", surface: fine }]);
  assert.equal(settled.count, 0);
  clock.advance(130_000);
  assert.equal(settled.count, 1);
  assert.equal(served.listener.running, 0);
  assert.match(served.errors.join(), /a surface did not return .*"plugin":"surface-0"/);
  // The old generation has no exchanges left.
  await old.retire();
});

it("a stop does not wait for a surface that never returns, and names its route", async () => {
  const clock = manualClock();
  const left = Promise.withResolvers<void>();
  const surface = waits((x) => (x.onAbort = { aborted: () => left.resolve() }));
  const served = await serve([{ path: "/hostile", surface }], { clock });
  await leave(served);
  await left.promise;
  const closed = served[Symbol.asyncDispose]();
  // Each timer of the stop begins when the previous one has ended.
  const moving = setInterval(() => clock.advance(500), 1);
  await closed;
  clearInterval(moving);
  assert.match(served.errors.join(), /exchanges did not end in time.*"routes":\{"\/hostile":1\}/);
});

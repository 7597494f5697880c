import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { test } from "node:test";
import type { Exchange, Reply } from "../../../src/plugin.ts";
import { ask, serve, type TestRoute, type TestStep } from "../harness.ts";

test("a running exchange finishes on its generation, which stops afterwards", async () => {
  const gate = Promise.withResolvers<void>();
  const entered = Promise.withResolvers<void>();
  const stopped: string[] = [];
  const step = (name: string): TestStep => ({
    name,
    requestHeaders: () => {},
    stop: () => void stopped.push(name),
  });
  const route = (text: string, steps: TestStep[], wait?: Promise<void>): TestRoute => ({
    path: "/x",
    steps,
    surface: {
      async answer(_: Exchange): Promise<Reply> {
        entered.resolve();
        await wait;
        return { status: 200, body: text };
      },
    },
  });
  await using served = await serve([route("old", [step("old")], gate.promise)]);
  const slow = ask(served, "/x");
  await entered.promise;
  await served.reload([route("new", [step("new")])]);
  assert.equal((await ask(served, "/x")).body, "new");
  assert.deepEqual(stopped, []);
  gate.resolve();
  assert.equal((await slow).body, "old");
  while (stopped.length === 0) await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(stopped, ["old"]);
});

test("a kept-alive connection runs its next request on the new generation", async () => {
  const route = (text: string): TestRoute => ({
    path: "/x",
    surface: { answer: () => ({ status: 200, body: text }) },
  });
  await using served = await serve([route("old")]);
  const socket = connect(served.port, "127.0.0.1");
  const next = async (): Promise<string> => {
    socket.write("GET /x HTTP/1.1\r\nhost: x\r\n\r\n");
    const [chunk] = await once(socket, "data");
    return String(chunk);
  };
  assert.match(await next(), /old$/);
  await served.reload([route("new")]);
  assert.match(await next(), /new$/);
  socket.destroy();
});

test("a plugin that cannot stop hides neither its own error nor the reason why another did not start", async () => {
  const surface = { answer: (): Reply => ({ status: 200, body: "served" }) };
  await using served = await serve([{ path: "/x", surface }]);
  const unstoppable: TestStep = {
    name: "unstoppable",
    requestHeaders: () => {},
    stop() {
      throw new Error("held");
    },
  };
  const broken: TestRoute = {
    path: "/broken",
    get surface(): never {
      throw new Error("no start");
    },
  };
  await assert.rejects(
    served.reload([{ path: "/x", steps: [unstoppable], surface }, broken]),
    /SLUICE_PLUGIN_START.*did not start: no start/,
  );
  assert.match(served.errors.join(), /did not stop cleanly/);
  assert.equal((await ask(served, "/x")).body, "served");
});

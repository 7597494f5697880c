/** Values that plugins return: headers, some of which belong to the connection, and the bytes of `responseFlush`. */
import assert from "node:assert/strict";
import { test, describe, it } from "node:test";
import {
  defineStep,
  defineSurface,
  type Exchange,
  type Reply,
  type SurfaceHooks,
} from "../../../src/plugin.ts";
import { testStep, testSurface } from "../../../src/testing/test-plugin.ts";
import { ask, serve, type TestStep } from "../harness.ts";

/** The headers of an answer of a server, as a plugin may copy them. */
const copied = [
  "Content-Length",
  "16",
  "Connection",
  "keep-alive",
  "Keep-Alive",
  "timeout=5",
  "Transfer-Encoding",
  "chunked",
  "X-A",
  "1",
  "set-cookie",
  "a=1",
  "set-cookie",
  "b=2",
];

test("a surface that returns all headers of an upstream gets one length and its own connection", async () => {
  const surface = { answer: () => ({ status: 200, headers: copied, body: "hello" }) };
  await using served = await serve([{ path: "/x", surface }]);
  // fetch refuses an answer with two lengths.
  const answer = await fetch(`${served.url}/x`);
  assert.equal(await answer.text(), "hello");
  assert.equal(answer.headers.get("content-length"), "5");
  assert.equal(answer.headers.get("x-a"), "1");
  assert.deepEqual(answer.headers.getSetCookie(), ["a=1", "b=2"]);
});

test("a surface that streams with such headers sends one length", async () => {
  const surface = {
    async answer(x: Exchange) {
      const sink = await x.stream(200, copied);
      sink.write("0123456789abcdef");
      await sink.end();
      return undefined;
    },
  };
  await using served = await serve([{ path: "/x", surface }]);
  const answer = await fetch(`${served.url}/x`);
  assert.equal(await answer.text(), "0123456789abcdef");
  assert.equal(answer.headers.get("content-length"), "16");
});

test("a step that sets the length of a reply does not add a second one", async () => {
  const step = {
    name: "sizing",
    responseHeaders: (_: unknown, head: { set(name: string, value: string): void }) =>
      head.set("Content-Length", "99"),
  };
  const surface = { answer: () => ({ status: 200, body: "hello" }) };
  await using served = await serve([{ path: "/x", steps: [step], surface }]);
  const { headers, body } = await ask(served, "/x");
  assert.deepEqual([headers["content-length"], body], ["5", "hello"]);
});

for (const [what, headers, problem] of [
  ["with an odd length", ["x-a"], "returned `headers` of an odd length"],
  ["that is an object", { "x-a": "1" }, "headers must be a flat list: name, value …"],
] as const) {
  test(`a list of headers ${what} fails the request`, async () => {
    // A plugin in JavaScript may return anything.
    const reply: unknown = { status: 200, headers, body: "hello" };
    const answer = (): Reply => reply as Reply;
    await using served = await serve([{ path: "/x", surface: { answer } }]);
    assert.equal((await ask(served, "/x")).status, 500);
    assert.match(served.errors.join(), /a plugin failed/);
    const surface = defineSurface({
      name: "wrong",
      description: "Fails.",
      start: () => ({ answer }),
    });
    await using tested = await testSurface(surface);
    assert.equal((await tested.send()).status, 500);
    assert.ok(tested.lines.join().includes(problem), problem);
  });
}

test("a test of one plugin refuses the same headers as a gateway", async () => {
  for (const headers of [
    ["x a", "1"],
    ["x-a", "1\r\nx-b: 2"],
    ["x-a", "Ж"],
  ]) {
    const answer = (): Reply => ({ status: 200, headers, body: "hello" });
    const surface = defineSurface({
      name: "wrong",
      description: "Fails.",
      start: () => ({ answer }),
    });
    await using served = await serve([{ path: "/x", surface: { answer } }]);
    await using tested = await testSurface(surface);
    const statuses = [(await ask(served, "/x")).status, (await tested.send()).status];
    assert.deepEqual(statuses, [500, 500], headers.join());
  }
});

test("strict mode names the header and the plugin that returned it", async () => {
  const description = "Returns wrong headers.";
  const wrong = {
    connection: /plugin \\"copying\\" returned the header \\"connection\\"/,
    "content-length": /plugin \\"copying\\" returned the header \\"content-length\\"/,
  };
  for (const [name, problem] of Object.entries(wrong)) {
    const reply = { status: 200, headers: [name, "5"], body: "hello" };
    const surface = defineSurface({
      name: "copying",
      description,
      start: () => ({ answer: () => Promise.resolve(reply) }),
    });
    await using tested = await testSurface(surface);
    assert.equal((await tested.send()).status, 500);
    assert.match(tested.lines.join(), problem);
    const step = defineStep({
      name: "copying",
      description,
      start: () => ({ requestHeaders: () => reply }),
    });
    await using below = await testStep(step);
    assert.equal((await below.send()).status, 500);
    assert.match(below.lines.join(), problem);
  }
});

/** Changes whole lines only, so it holds back a line until it is complete. */
const upperLines: TestStep = {
  name: "upper-lines",
  createState: () => ({ line: "" }),
  responseChunk(_, chunk, state) {
    const held = state as { line: string };
    const lines = (held.line + Buffer.from(chunk).toString()).split("\n");
    held.line = lines.pop() ?? "";
    return Buffer.from(lines.map((line) => `${line.toUpperCase()}\n`).join(""));
  },
  responseFlush: (_, state) => Buffer.from((state as { line: string }).line.toUpperCase()),
};

const streaming: SurfaceHooks = {
  async answer(x: Exchange) {
    const sink = await x.stream(200, ["content-length", "13"]);
    for (const part of ["one\nt", "wo\nth", "ree"]) sink.write(part);
    await sink.end(undefined, Buffer.from("!"));
    return undefined;
  },
};
const whole: SurfaceHooks = { answer: (): Reply => ({ status: 200, body: "one\ntwo\nthree!" }) };

describe("a step that holds back bytes", () => {
  for (const [what, surface] of Object.entries({ stream: streaming, reply: whole })) {
    it(`sends them at the end of a ${what}, through the steps above`, async () => {
      const above: TestStep = {
        name: "above",
        responseChunk: (_, chunk) =>
          Buffer.from(Buffer.from(chunk).toString().replaceAll("E", "3")),
        responseFlush: () => Buffer.from(" (end)"),
      };
      await using served = await serve([{ path: "/x", steps: [above, upperLines], surface }]);
      const { body, headers } = await ask(served, "/x");
      assert.equal(body, "ON3\nTWO\nTHR33! (end)");
      assert.equal(headers["content-length"], what === "reply" ? "20" : undefined);
    });
  }

  it("adds nothing to an answer without a body", async () => {
    const surface = { answer: (): Reply => ({ status: 204 }) };
    const step: TestStep = { name: "adds", responseFlush: () => Buffer.from("x") };
    await using served = await serve([{ path: "/x", steps: [step], surface }]);
    const { status, body } = await ask(served, "/x");
    assert.deepEqual([status, body], [204, ""]);
  });

  it("cuts the answer if it throws or returns something else, even with onError: skip", async () => {
    const broken = (): never => {
      throw new Error("broken");
    };
    for (const responseFlush of [broken, () => "text" as never, () => Promise.resolve() as never]) {
      for (const onError of ["refuse", "skip"] as const) {
        const step: TestStep = { name: "bad", onError, responseFlush };
        await using served = await serve([
          { path: "/stream", steps: [step], surface: streaming },
          { path: "/reply", steps: [step], surface: whole },
        ]);
        await assert.rejects(ask(served, "/stream"));
        assert.equal((await ask(served, "/reply")).status, 500);
        assert.match(served.errors.join(), /a plugin failed .*"plugin":"bad"/);
      }
    }
  });
});

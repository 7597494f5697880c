/** The headers that a plugin returns: those of a connection are dropped, and an odd list is a failure of the plugin. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { defineStep, defineSurface, type Exchange } from "../../../src/plugin.ts";
import { testStep, testSurface } from "../../../src/testing/test-plugin.ts";
import { ask, serve } from "../harness.ts";

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

test("a list of headers with an odd length fails the request", async () => {
  const surface = { answer: () => ({ status: 200, headers: ["x-a"], body: "hello" }) };
  await using served = await serve([{ path: "/x", surface }]);
  assert.equal((await ask(served, "/x")).status, 500);
  assert.match(served.errors.join(), /a plugin failed/);
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

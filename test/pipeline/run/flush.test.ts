/** The hook `responseFlush`: a step that holds back bytes of a body sends them before the body ends. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Exchange, Reply, SurfaceHooks } from "../../../src/plugin.ts";
import { ask, serve, type TestStep } from "../harness.ts";

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

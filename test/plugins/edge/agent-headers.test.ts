import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import type { Agent } from "sluice-gateway/services";
import agentHeaders from "../../../plugins/edge/agent-headers/index.ts";
import { fakeExchange, fakeHost } from "../fakes.ts";

const hooks = await agentHeaders.start({}, fakeHost());

function read(headers: Record<string, string>): Agent | undefined {
  const x = fakeExchange({ headers });
  assert.equal(hooks.requestHeaders?.(x), undefined);
  return x.peek("agent");
}

describe("the agent of a request", () => {
  it("is absent without the headers", () => {
    assert.equal(read({ "user-agent": "x", "x-agent": "y" }), undefined);
    assert.equal(read({ "x-agent-name": "", "x-agent-capabilities": " , ,," }), undefined);
  });

  it("is read from the five headers", () => {
    assert.deepEqual(
      read({
        "x-agent-name": "Planner",
        "x-agent-version": "1.2.0",
        "x-agent-session-id": "s-1",
        "x-agent-provider": "Acme Inc.",
        "x-agent-capabilities": "tools, streaming ,,batch",
      }),
      {
        name: "Planner",
        version: "1.2.0",
        sessionId: "s-1",
        provider: "Acme Inc.",
        capabilities: ["tools", "streaming", "batch"],
      },
    );
  });

  it("has the members that were sent", () => {
    const agent = read({ "x-agent-version": " 7 " });
    assert.equal(JSON.stringify(agent), '{"version":"7"}');
  });

  it("is limited in length and printable, whatever was sent", () => {
    const text = fc.string({ unit: "binary", maxLength: 3000 });
    fc.assert(
      fc.property(text, text, (name, capabilities) => {
        const agent = read({ "x-agent-name": name, "x-agent-capabilities": capabilities });
        for (const value of [agent?.name ?? "-", ...(agent?.capabilities ?? [])]) {
          assert.match(value, /^[\x20-\x7e]{1,128}$/);
        }
        for (const value of agent?.capabilities ?? []) assert.ok(value.length <= 64);
        assert.ok((agent?.capabilities ?? []).length <= 16);
      }),
      { numRuns: 200 },
    );
  });

  it("is truncated if it is too long", () => {
    const agent = read({
      "x-agent-name": "n".repeat(8000),
      "x-agent-session-id": `${"s".repeat(127)} and more`,
      "x-agent-capabilities": Array.from({ length: 500 }, (_, i) => `c${i}`).join(","),
    });
    assert.equal(agent?.name, "n".repeat(128));
    assert.equal(agent.sessionId, "s".repeat(127));
    assert.deepEqual([agent.capabilities?.length, agent.capabilities?.[15]], [16, "c15"]);
    const long = read({ "x-agent-capabilities": `a,${"b".repeat(5000)}` });
    assert.deepEqual(long?.capabilities, ["a", "b".repeat(64)]);
  });

  it("can neither forge a line nor colour a terminal", () => {
    const agent = read({ "x-agent-name": 'a\r\n{"level":30}\u001b[31m\u0000é' });
    assert.equal(agent?.name, 'a??{"level":30}?[31m??');
  });
});

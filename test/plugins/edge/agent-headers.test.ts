/** The agent that the step reads from the headers of a request. */
import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import * as fc from "fast-check";
import type { Agent } from "sluice-gateway/services";
import agentHeaders from "../../../plugins/edge/agent-headers/index.ts";
import { testStep } from "sluice-gateway/testing";

const step = await testStep(agentHeaders);
after(() => step[Symbol.asyncDispose]());

async function read(headers: Record<string, string>): Promise<Agent | undefined> {
  const { status, slots, facts } = await step.send({ headers });
  assert.equal(status, 200);
  assert.equal(facts.agent, slots.agent);
  return slots.agent;
}

describe("the agent of a request", () => {
  it("is absent without the headers", async () => {
    assert.equal(await read({ "user-agent": "x", "x-agent": "y" }), undefined);
    assert.equal(await read({ "x-agent-name": "", "x-agent-capabilities": " , ,," }), undefined);
  });

  it("is read from the five headers", async () => {
    assert.deepEqual(
      await read({
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

  it("has the members that were sent", async () => {
    const agent = await read({ "x-agent-version": " 7 " });
    assert.equal(JSON.stringify(agent), '{"version":"7"}');
  });

  it("is limited in length and printable, whatever was sent", async () => {
    const text = fc.string({ unit: "binary", maxLength: 3000 });
    await fc.assert(
      fc.asyncProperty(text, text, async (name, capabilities) => {
        const agent = await read({ "x-agent-name": name, "x-agent-capabilities": capabilities });
        for (const value of [agent?.name ?? "-", ...(agent?.capabilities ?? [])]) {
          assert.match(value, /^[\x20-\x7e]{1,128}$/);
        }
        for (const value of agent?.capabilities ?? []) assert.ok(value.length <= 64);
        assert.ok((agent?.capabilities ?? []).length <= 16);
      }),
      { numRuns: 200 },
    );
  });

  it("is truncated if it is too long", async () => {
    const agent = await read({
      "x-agent-name": "n".repeat(8000),
      "x-agent-session-id": `${"s".repeat(127)} and more`,
      "x-agent-capabilities": Array.from({ length: 500 }, (_, i) => `c${i}`).join(","),
    });
    assert.equal(agent?.name, "n".repeat(128));
    assert.equal(agent.sessionId, "s".repeat(127));
    assert.deepEqual([agent.capabilities?.length, agent.capabilities?.[15]], [16, "c15"]);
    const long = await read({ "x-agent-capabilities": `a,${"b".repeat(5000)}` });
    assert.deepEqual(long?.capabilities, ["a", "b".repeat(64)]);
  });

  it("can neither forge a line nor colour a terminal", async () => {
    const agent = await read({ "x-agent-name": 'a\r\n{"level":30}\u001b[31m\u0000é' });
    assert.equal(agent?.name, 'a??{"level":30}?[31m??');
  });
});

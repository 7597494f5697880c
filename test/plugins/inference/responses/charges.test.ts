/** A response costs the tokens that the worker counts, whole, streamed, cut or abandoned. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { eventsFor } from "../networks/native-events.ts";
import { usageOf } from "../networks/worker-scripts.ts";
import { tokenMilli } from "../chat/gateway.ts";
import { assertEvents } from "./check-stream.ts";
import { callDelta, deltas, message, networks, startResponses } from "./gateway.ts";

const inTime = { timeout: 30_000 };
const begin = { id: "call_1", name: "edit" };
const tool = { type: "function", name: "edit" };

for (const [kind, network] of networks) {
  describe(`the charge of a response (${kind})`, inTime, () => testCharges(network));
  describe(`the reservation of a response (${kind})`, inTime, () => testReservations(network));
}

function testCharges(network: string): void {
  it("is tokens times price, in one piece: in the header, the usage and the journal", async () => {
    await using gateway = await startResponses({ network });
    gateway.worker.script(message({ content: "Hello" }, "stop", usageOf(40, 9)));
    const { json, headers } = await gateway.create({ input: "x".repeat(100) });
    assert.equal(headers["x-used-cu-milli"], String(49 * tokenMilli));
    assert.equal(json.usage.usedCUMilli, 49 * tokenMilli);
    const [row, ...more] = await gateway.charged(1);
    assert.deepEqual(more, []);
    assert.deepEqual(
      [row?.usedMilliCu, row?.inputTokens, row?.outputTokens, row?.surface, row?.method],
      [49 * tokenMilli, 40, 9, "responses", "responses"],
    );
  });

  it("is the same in a stream, with cached and reasoning tokens in the usage", async () => {
    await using gateway = await startResponses({ network });
    const usage = {
      ...usageOf(40, 9),
      prompt_tokens_details: { cached_tokens: 32 },
      completion_tokens_details: { reasoning_tokens: 3 },
    };
    gateway.worker.script(
      deltas([{ reasoning_content: "hm" }, { content: "Hello" }], "stop", usage),
    );
    const { usage: shown } = assertEvents(await gateway.events({ input: "x".repeat(100) }));
    assert.deepEqual(shown, {
      input_tokens: 40,
      input_tokens_details: { cached_tokens: 32 },
      output_tokens: 9,
      output_tokens_details: { reasoning_tokens: 3 },
      total_tokens: 49,
      usedCUMilli: 49 * tokenMilli,
    });
    const [row] = await gateway.charged(1);
    assert.equal(row?.usedMilliCu, 49 * tokenMilli);
  });

  it("of a stream that breaks is what was produced, and the last event says so", async () => {
    await using gateway = await startResponses({ network });
    const text = "x".repeat(400);
    gateway.worker.script(async (exchange) => {
      const events = eventsFor(exchange);
      exchange.begin();
      await exchange.push(events.delta(callDelta(0, "", begin)));
      await exchange.push(events.delta(callDelta(0, text)));
      exchange.cut();
    });
    const response = assertEvents(await gateway.events({ tools: [tool] }));
    assert.deepEqual([response.status, response.error.code], ["failed", "server_error"]);
    const [row] = await gateway.charged(1);
    assert.equal(row?.outputTokens, (begin.name.length + text.length) / 4);
    assert.equal(row.estimated, true);
    assert.equal(row.outcome, "upstreamFailed");
    assert.equal(response.usage.usedCUMilli, row.usedMilliCu);
    assert.equal(
      row.usedMilliCu,
      (row.inputTokens ?? 0) * tokenMilli + row.outputTokens * tokenMilli,
    );
  });

  it("is an estimate if the report of the worker is impossible", async () => {
    for (const stream of [true, false]) {
      await using gateway = await startResponses({ network });
      const lie = usageOf(1e6, 1e6);
      gateway.worker.script(
        stream
          ? deltas([{ content: "12345678" }], "stop", lie)
          : message({ content: "12345678" }, "stop", lie),
      );
      await gateway.create({ stream, max_output_tokens: 20 });
      const [row] = await gateway.charged(1);
      assert.deepEqual([row?.inputTokens, row?.outputTokens, row?.estimated], [1, 2, true]);
    }
  });

  it("ends endless arguments of a tool at the limit, as an incomplete call", async () => {
    await using gateway = await startResponses({ network });
    const endless = [
      callDelta(0, '{"a":"', begin),
      ...Array.from({ length: 400 }, () => callDelta(0, "x")),
    ];
    gateway.worker.script(deltas(endless, "tool_calls", usageOf(5, 401)));
    const response = assertEvents(await gateway.events({ tools: [tool], max_output_tokens: 100 }));
    assert.deepEqual(response.incomplete_details, { reason: "max_output_tokens" });
    assert.equal(response.output[0].status, "incomplete");
    const [row] = await gateway.charged(1);
    assert.equal(row?.outputTokens, 100);
  });
}

function testReservations(network: string): void {
  it("covers instructions, tools, calls and schemas", async () => {
    const members = {
      instructions: "x".repeat(1000),
      tools: [{ ...tool, description: "y".repeat(1000) }],
      text: { format: { type: "json_schema", name: "z", schema: { title: "z".repeat(1000) } } },
      input: [{ type: "function_call", call_id: "c", name: "edit", arguments: "w".repeat(1000) }],
      max_output_tokens: 10,
    };
    for (const [tokens, status] of [
      [4000, 429],
      [5000, 200],
    ] as const) {
      await using gateway = await startResponses({
        network,
        account: { cuLimit24hMilli: tokens * tokenMilli },
      });
      assert.equal((await gateway.create(members)).status, status);
    }
  });
}

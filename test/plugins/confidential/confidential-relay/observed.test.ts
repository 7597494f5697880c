/** Observability of encrypted sessions: metrics by model and network, and failures in the access log. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, beforeEach, describe, it } from "node:test";
import { errorFrame, fault } from "../../../../plugins/confidential/protocol/fault.ts";
import { model } from "./enclave-worker.ts";
import { startStreamGateway, type StreamGateway } from "./stream-gateway.ts";
import { until } from "./wait.ts";

interface Line {
  readonly code?: string;
  readonly calls?: { readonly names: readonly string[]; readonly failed: number };
}

describe("operators of an encrypted network", () => {
  let stream: StreamGateway;
  before(async () => {
    stream = await startStreamGateway();
  });
  after(() => stream[Symbol.asyncDispose]());
  beforeEach(() => {
    stream.worker.script = {};
  });

  /** The complete lines of the access log about sessions. */
  function sessionLines(): Line[] {
    const lines = readFileSync(join(stream.gateway.folder, "access.log"), "utf8").split("\n");
    return lines
      .slice(0, -1)
      .filter((line) => line.includes("/v1/confidential/stream"))
      .map((line) => JSON.parse(line) as Line);
  }

  /** Runs a session to its end. Returns its line of the access log. */
  async function lineOf(run: () => Promise<void>): Promise<Line> {
    const earlier = sessionLines().length;
    await run();
    await until(() => sessionLines().length > earlier);
    return sessionLines().at(-1) ?? {};
  }

  async function metric(name: string, ...labels: readonly string[]): Promise<number> {
    const text = await (await fetch(`${stream.gateway.adminUrl}/metrics`)).text();
    const found = text
      .split("\n")
      .find((line) => line.startsWith(`${name}{`) && labels.every((label) => line.includes(label)));
    return Number(found?.split(" ").at(-1) ?? 0);
  }

  it("see the tokens, the duration and the time to the first token of a request", async () => {
    const labels = [`gen_ai_request_model="${model}"`, 'network="alpha"'];
    // Waits for the line of this session, which must not be taken for the line of the next one.
    await lineOf(async () => {
      using session = await stream.open();
      session.ask();
      await session.answer();
    });
    const tokens = "gen_ai_client_token_usage_sum";
    assert.equal(await metric(tokens, ...labels, 'gen_ai_token_type="input"'), 5);
    assert.equal(await metric(tokens, ...labels, 'gen_ai_token_type="output"'), 2);
    const duration = "gen_ai_server_request_duration_seconds_count";
    assert.equal(await metric(duration, ...labels, 'error_type=""'), 1);
    assert.equal(await metric("gen_ai_server_time_to_first_token_seconds_count", ...labels), 1);
  });

  it("see a request for which the enclave reports an error and no tokens", async () => {
    stream.worker.script = {
      chunks: [],
      tokens: { prompt: 0, completion: 0, cached: 0, reasoning: 0 },
      report: (report) => ({ ...report, finish: "error" }),
    };
    const line = await lineOf(async () => {
      using session = await stream.open();
      session.ask();
      await session.answer();
    });
    assert.deepEqual([line.code, line.calls?.names], ["UPSTREAM_ERROR", [model]]);
    const duration = "gen_ai_server_request_duration_seconds_count";
    assert.equal(await metric(duration, 'network="alpha"', 'error_type="broken"'), 1);
  });

  it("see a request whose enclave disconnects", async () => {
    // The first frame of the answer is lost with the connection.
    stream.worker.script = {
      frame: () => {
        stream.worker.cut();
        return undefined;
      },
    };
    const line = await lineOf(async () => {
      using session = await stream.open();
      session.ask();
      session.socket.on("message", () => {});
      await session.closed;
    });
    assert.deepEqual([line.code, line.calls?.failed], ["UPSTREAM_ERROR", 1]);
  });

  it("see a session that every enclave refuses", async () => {
    stream.worker.script = { answer: () => errorFrame(fault("LIMIT_EXCEEDED", "no")) };
    const line = await lineOf(async () => {
      await assert.rejects(stream.open());
    });
    assert.deepEqual([line.code, line.calls?.names], ["INVALID_REQUEST", ["other"]]);
  });
});

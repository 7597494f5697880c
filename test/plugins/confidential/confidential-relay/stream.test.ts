/** Sessions through the gateway, and what operators see of them in metrics and in the access log. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, beforeEach, describe, it, type TestContext } from "node:test";
import type { Accounts, Caller, Metering } from "sluice-gateway/services";
import { errorFrame, fault, isFault } from "../../../../plugins/confidential/protocol/fault.ts";
import { model } from "./enclave-worker.ts";
import { startStreamGateway, tokenMilli, type StreamGateway } from "./stream-gateway.ts";
import { until } from "./wait.ts";
import { chunkOf, eventOf } from "../../inference/networks/chat-events.ts";
import { readAnswer } from "../../../../plugins/confidential/protocol/handshake.ts";
import { writeHello } from "../../../../plugins/confidential/protocol/hello.ts";
import { nodeSuite } from "../../../../plugins/confidential/protocol/node-crypto.ts";
import { readTextFrame } from "../../../../plugins/confidential/protocol/text-frames.ts";
import { readReport } from "../../../../plugins/confidential/protocol/usage-report.ts";
import { fromBase64Url } from "../../../../plugins/confidential/protocol/encoding.ts";
import { helloOf, unwrap } from "./stream-client.ts";

interface Line {
  readonly code?: string;
  readonly calls?: { readonly names: readonly string[]; readonly failed: number };
}

describe("a session through the gateway", () => {
  let stream: StreamGateway;
  before(async () => {
    stream = await startStreamGateway();
  });
  after(() => stream[Symbol.asyncDispose]());
  beforeEach(() => {
    stream.worker.script = {};
  });

  it("carries a chat that only the two ends can read, and is charged by the enclave's signed report", async () => {
    const { worker } = stream;
    using session = await stream.open();
    session.ask();
    const { deltas, final, done } = await session.answer();
    assert.deepEqual(deltas, [{ content: "Hello" }, { content: " world" }]);
    assert.equal(final["finish_reason"], "stop");
    assert.deepEqual(done.usage, {
      prompt_tokens: 5,
      completion_tokens: 2,
      total_tokens: 7,
      prompt_tokens_details: { cached_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 0 },
      verified: false,
      unverified_reason: "simulated",
    });
    assert.equal(done.usedCUMilli, 7 * tokenMilli);
    assert.equal(done.pricing.network, "alpha");
    assert.equal(worker.requests.at(-1)?.["model"], model);
    const [charge] = await stream.charges();
    assert.equal(charge?.usedMilliCu, 7 * tokenMilli);
    assert.equal(charge?.surface, "confidential-stream");
    assert.equal(charge?.model, model);
    assert.equal(readReport(fromBase64Url(done.report) ?? new Uint8Array())?.rid, 1);
    const labels = [`gen_ai_request_model="${model}"`, 'network="alpha"'];
    const duration = "gen_ai_server_request_duration_seconds_count";
    await until(async () => (await metric(duration, ...labels, 'error_type=""')) === 1);
    const tokens = "gen_ai_client_token_usage_sum";
    assert.equal(await metric(tokens, ...labels, 'gen_ai_token_type="input"'), 5);
    assert.equal(await metric(tokens, ...labels, 'gen_ai_token_type="output"'), 2);
    assert.equal(await metric("gen_ai_server_time_to_first_token_seconds_count", ...labels), 1);
    session.socket.close();
    // This line must not be taken for that of a later session.
    await until(() => sessionLines().length > 0);
  });

  it("forwards hello unchanged, including unknown members", async () => {
    const earlier = sessionLines().length;
    using wire = await stream.wire();
    const { hello } = await helloOf();
    const text = Buffer.from(writeHello(hello)).toString();
    const odd = Buffer.from(` ${text.replace("{", '{ "later" : [1.0, "\\u0041"],\n')}\n`);
    wire.socket.send(odd, { binary: false });
    const frame = readTextFrame(Buffer.from(JSON.stringify(await wire.nextText())));
    assert.ok(!isFault(frame) && frame.kind === "attestation");
    const expected = { net: "alpha", role: "worker", now: Date.now() / 1000 } as const;
    const read = (bytes: Buffer): ReturnType<typeof readAnswer> =>
      readAnswer(nodeSuite, bytes, frame.core, frame.sig, expected);
    assert.ok(!isFault(await read(odd)));
    assert.ok(isFault(await read(Buffer.from(JSON.stringify(JSON.parse(odd.toString()))))));
    assert.partialDeepStrictEqual(frame.offer, { coefficient: 1000, pricePerTokenNano: "12" });
    const { validUntil } = frame.offer as { validUntil: string };
    assert.ok(Math.abs(Date.parse(validUntil) - Date.now() - 3_000_000) < 60_000, validUntil);
    wire.socket.close();
    await until(() => sessionLines().length > earlier);
  });

  function sessionLines(): Line[] {
    const lines = readFileSync(join(stream.gateway.folder, "access.log"), "utf8").split("\n");
    return lines
      .slice(0, -1)
      .filter((line) => line.includes("/v1/confidential/stream"))
      .map((line) => JSON.parse(line) as Line);
  }

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

  it("shows operators a request for which the enclave reports an error and no tokens", async () => {
    stream.worker.script = {
      chunks: [],
      tokens: { prompt: 0, completion: 0, cached: 0, reasoning: 0 },
      report: (report) => ({ ...report, finish: "error" }),
    };
    const line = await lineOf(async () => {
      await stream.chat();
    });
    assert.deepEqual([line.code, line.calls?.names], ["UPSTREAM_ERROR", [model]]);
    const duration = "gen_ai_server_request_duration_seconds_count";
    assert.equal(await metric(duration, 'network="alpha"', 'error_type="broken"'), 1);
  });

  it("shows operators a request whose enclave disconnects", async () => {
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

  it("shows operators a session that every enclave refuses", async () => {
    stream.worker.script = { answer: () => errorFrame(fault("LIMIT_EXCEEDED", "no")) };
    const line = await lineOf(async () => {
      await assert.rejects(stream.open());
    });
    assert.deepEqual([line.code, line.calls?.names], ["INVALID_REQUEST", ["other"]]);
  });
});

describe("a gateway that decrypts sessions itself", () => {
  let stream: StreamGateway;
  before(async () => {
    stream = await startStreamGateway({ own: true });
  });
  after(() => stream[Symbol.asyncDispose]());

  it("acts as an enclave for models of an unencrypted network", async () => {
    using session = await stream.open({ network: "classic", termination: "gateway" });
    session.ask({ model, messages: [{ role: "user", content: "Say hello" }], max_tokens: 20 });
    const { deltas, final, done } = await session.answer();
    assert.equal(deltas.map(({ content }) => content).join(""), "Hello world");
    assert.equal(final["finish_reason"], "stop");
    assert.equal(done.usage.unverified_reason, "simulated");
    const tokens = done.usage.total_tokens;
    assert.equal(done.usedCUMilli, tokens * tokenMilli);
    const [charge] = await stream.charges();
    assert.equal(charge?.usedMilliCu, tokens * tokenMilli);
  });

  it("stores no receipts for refused or cancelled requests without a result, because they are free", async () => {
    const charged = (await stream.charges()).length;
    using session = await stream.open({ network: "classic", termination: "gateway" });
    session.ask({ model: "Other/Model", messages: [{ role: "user", content: "Say hello" }] });
    const refused = await session.answer();
    assert.equal(refused.final["finish_reason"], "error");
    const begun = unwrap(session.channel.seal("request", 2, Buffer.from("{"), false));
    session.socket.send(begun);
    session.socket.send(unwrap(session.channel.seal("cancel", 2, new Uint8Array())));
    const cancelled = await session.answer();
    assert.equal(cancelled.final["finish_reason"], "cancel");
    const id = Buffer.from(session.attested.core.session).toString("base64url");
    for (const { done } of [refused, cancelled]) {
      assert.equal(done.usedCUMilli, 0);
      assert.equal(done.usage.unverified_reason, "simulated");
      const receipt = `/v1/confidential/receipts/${id}/${done.rid}`;
      assert.equal((await stream.get(receipt, stream.gateway.key)).status, 404);
    }
    assert.equal((await stream.charges()).length, charged);
  });

  it("stops the model when the client disconnects, and charges the tokens produced so far", async () => {
    const charged = (await stream.charges()).length;
    const session = await stream.open({ network: "classic", termination: "gateway" });
    const holding = stream.plain.hold();
    session.ask();
    const held = await holding;
    held.begin();
    await held.push(eventOf(JSON.stringify(chunkOf({ content: "One" }))));
    await session.nextBinary();
    session.socket.terminate();
    await held.left;
    await until(async () => (await stream.charges()).length > charged);
    const last = (await stream.charges()).at(-1);
    assert.deepEqual([last?.outputTokens, last?.outcome], [1, "clientLeft"]);
  });
});

describe("a store that answers later", () => {
  let stream: StreamGateway;
  let accounts: Accounts;
  let metering: Metering;
  before(async () => {
    stream = await startStreamGateway();
    accounts = stream.gateway.gateway.use("accounts") ?? assert.fail();
    metering = stream.gateway.gateway.use("metering") ?? assert.fail();
  });
  after(() => stream[Symbol.asyncDispose]());

  const hasEnded = () => until(async () => (await stream.gauge("sluice_stream_sessions")) === 0);
  const charges = async (): Promise<number> => (await stream.charges()).length;

  /** Makes the next checks of keys wait. The caller answers them, in any order. */
  function holdChecks(t: TestContext): ((caller?: Caller) => void)[] {
    const held: ((caller?: Caller) => void)[] = [];
    // The service is a plain object whose methods do not use `this`.
    // oxlint-disable-next-line typescript/unbound-method
    const atOnce = accounts.identifyAgain;
    t.mock.method(accounts, "identifyAgain", async (...args: Parameters<typeof atOnce>) => {
      const { promise, resolve } = Promise.withResolvers<Caller | undefined>();
      held.push((caller) => resolve(caller));
      return (await promise) ?? atOnce(...args);
    });
    return held;
  }

  it("delays the frames of a request until the key is checked; they arrive in their order", async (t) => {
    using session = await stream.open();
    const held = holdChecks(t);
    const charged = await charges();
    const request = { model, messages: [{ role: "user", content: "Say hello" }] };
    const bytes = Buffer.from(JSON.stringify(request));
    for (const piece of [bytes.subarray(0, 5), bytes.subarray(5, 9), bytes.subarray(9)]) {
      const isEnd = piece.length > 5;
      session.socket.send(unwrap(session.channel.seal("request", 1, piece, isEnd)));
    }
    await until(() => held.length === 1);
    held[0]?.();
    assert.equal((await session.answer()).done.usedCUMilli, 7 * tokenMilli);
    assert.equal(await charges(), charged + 1);
  });

  it("ends the session without a charge if the key cannot be checked", async (t) => {
    const charged = await charges();
    using session = await stream.open();
    const held = holdChecks(t);
    session.ask();
    await until(() => held.length === 1);
    held[0]?.({ kind: "unavailable" });
    assert.equal((await session.nextText())["code"], "UPSTREAM_FAILED");
    assert.equal(await session.closed, 1011);
    await hasEnded();
    assert.equal(await charges(), charged);
  });

  it("gets the credit back if the client has left in the meantime", async (t) => {
    const charged = await charges();
    const reserve = metering.reserve.bind(metering);
    const held: (() => void)[] = [];
    const taken: string[] = [];
    t.mock.method(metering, "reserve", async (...args: Parameters<typeof reserve>) => {
      await new Promise<void>((resolve) => void held.push(resolve));
      const result = await reserve(...args);
      taken.push(result.kind);
      return result;
    });
    {
      using session = await stream.open();
      session.ask();
      await until(() => held.length === 1);
    }
    await hasEnded();
    held[0]?.();
    await until(() => taken.length === 1);
    assert.deepEqual(taken, ["reserved"]);
    const { workspaceId } = stream.gateway;
    await until(async () => (await metering.workspaceUsage(workspaceId)).openMilliCu === 0);
    assert.equal(await charges(), charged);
  });
});

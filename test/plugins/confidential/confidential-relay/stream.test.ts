import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { chunkOf, eventOf } from "../../inference/networks/chat-events.ts";
import type { Exchange } from "../../inference/networks/scripted-worker.ts";
import { isFault } from "../../../../plugins/confidential/protocol/fault.ts";
import { readAnswer } from "../../../../plugins/confidential/protocol/handshake.ts";
import { writeHello } from "../../../../plugins/confidential/protocol/hello.ts";
import { nodeSuite } from "../../../../plugins/confidential/protocol/node-crypto.ts";
import { readTextFrame } from "../../../../plugins/confidential/protocol/text-frames.ts";
import { readReport } from "../../../../plugins/confidential/protocol/usage-report.ts";
import { fromBase64Url } from "../../../../plugins/confidential/protocol/encoding.ts";
import { model } from "./enclave-worker.ts";
import { helloOf, unwrap, type OpenStream } from "./stream-client.ts";
import { startStreamGateway, tokenMilli, type StreamGateway } from "./stream-gateway.ts";

describe("a session through the gateway", () => {
  let stream: StreamGateway;
  before(async () => {
    stream = await startStreamGateway();
  });
  after(() => stream[Symbol.asyncDispose]());

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
  });

  it("forwards hello unchanged, including unknown members", async () => {
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
  });
});

describe("a gateway that decrypts sessions itself", () => {
  let stream: StreamGateway;
  before(async () => {
    stream = await startStreamGateway({ own: true });
  });
  after(() => stream[Symbol.asyncDispose]());

  /** Sends a request and resolves to the first frame of the answer. The test controls the rest of the answer. */
  async function heldAnswer(session: OpenStream): Promise<{ held: Exchange; first: Buffer }> {
    const holding = stream.plain.hold();
    session.ask();
    const held = await holding;
    held.begin();
    await held.push(eventOf(JSON.stringify(chunkOf({ content: "One" }))));
    return { held, first: await session.nextBinary() };
  }

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
});

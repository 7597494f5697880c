/** The end of sessions: every fault is sent once with its code, and every request is charged or released. */
import assert from "node:assert/strict";
import { after, before, beforeEach, describe, it, type TestContext } from "node:test";
import type { Receipt } from "sluice-gateway/services";
import { model, type Script } from "./enclave-worker.ts";
import { errorFrame, fault } from "../../../../plugins/confidential/protocol/fault.ts";
import { writeHello, type Hello } from "../../../../plugins/confidential/protocol/hello.ts";
import { Receipts } from "../../../../plugins/confidential/confidential-relay/receipts.ts";
import type { UsageReport } from "../../../../plugins/confidential/protocol/usage-report.ts";
import { startStreamGateway, tokenMilli, type StreamGateway } from "./stream-gateway.ts";
import { greet, helloOf, openStream, unwrap, type OpenStream } from "./stream-client.ts";
import { gate, until } from "./wait.ts";

type Keep = typeof Receipts.prototype.keep;

const expired = fault("LIMIT_EXCEEDED", "the session has reached its maximum duration");

describe("the end of a session", () => {
  let stream: StreamGateway;
  before(async () => {
    stream = await startStreamGateway();
  });
  after(() => stream[Symbol.asyncDispose]());
  beforeEach(() => {
    stream.worker.script = {};
    stream.worker.coefficient = 1000;
  });

  /** Resolves to the error frame and the close code after it. */
  async function refusal(
    session: Pick<OpenStream, "next" | "nextText" | "closed">,
  ): Promise<unknown[]> {
    const { type, code } = await session.nextText();
    const closed = await session.closed;
    await assert.rejects(session.next(), /closed before the next message/);
    return [type, code, closed];
  }

  type Message = string | Uint8Array;
  type Ending = readonly [what: string, code: string, close: number];

  const hellos: readonly (readonly [...Ending, Partial<Hello> | ((text: string) => Message)])[] = [
    ["another network", "NETWORK_NOT_AVAILABLE", 4404, { network: "beta" }],
    ["another model", "MODEL_NOT_AVAILABLE", 4404, { model: "Other/Model" }],
    ["the gateway's termination", "TERMINATION_NOT_AVAILABLE", 4404, { termination: "gateway" }],
    ["a lower price than there is", "PRICE_ABOVE_MAX", 4402, { maxCoefficient: 999 }],
    ["another suite", "SUITE_UNSUPPORTED", 4426, (text) => text.replace("x25519", "p256")],
    ["a name twice", "BAD_FRAME", 4400, (text) => text.replace('"v":1', '"v":1,"v":1')],
    ["a message too long", "BAD_FRAME", 4400, () => " ".repeat(20_000)],
    ["a binary frame", "BAD_FRAME", 4400, () => Buffer.alloc(64)],
  ];
  for (const [what, code, close, change] of hellos) {
    it(`hello with ${what}: ${code}`, async () => {
      using wire = await stream.wire();
      const { hello } = await helloOf(typeof change === "function" ? {} : change);
      const text = Buffer.from(writeHello(hello)).toString();
      wire.socket.send(typeof change === "function" ? change(text) : text);
      assert.deepEqual(await refusal(wire), ["error", code, close]);
    });
  }

  // Only the enclave could detect that the ciphertext is not valid.
  const frames: readonly (readonly [...Ending, (frame: Uint8Array) => readonly Message[]])[] = [
    ["sent twice", "REPLAY", 4409, (frame) => [frame, frame]],
    ["with a number left out", "REPLAY", 4409, (frame) => [flipped(frame, 15)]],
    ["of another version", "BAD_FRAME", 4400, (frame) => [flipped(frame, 0)]],
    ["shorter than a header", "BAD_FRAME", 4400, () => [new Uint8Array(8)]],
    ["of text", "BAD_FRAME", 4400, () => ["{}"]],
  ];
  for (const [what, code, close, make] of frames) {
    it(`a frame ${what}: ${code}`, async () => {
      stream.worker.script = { pace: gate().pass };
      using session = await stream.open();
      const frame = unwrap(session.channel.seal("request", 1, Buffer.from("{}"), true));
      for (const each of make(frame)) session.socket.send(each);
      assert.deepEqual(await refusal(session), ["error", code, close]);
    });
  }

  it("a frame above the limit: the connection is closed with 1009", async () => {
    using session = await stream.open();
    session.socket.send(Buffer.alloc(2 * 1024 * 1024));
    assert.equal(await session.closed, 1009);
  });

  const shown: Readonly<Record<string, Script>> = {
    "an altered signature": { sig: (sig) => flipped(sig, 3) },
    "a keyset of another network": { keyset: (keyset) => ({ ...keyset, net: "beta" }) },
    "a keyset of the other role": { keyset: (keyset) => ({ ...keyset, role: "gateway" }) },
    "a keyset that has ended": { keyset: (keyset) => ({ ...keyset, notAfter: 1 }) },
    "a bill": { answer: () => '{"type":"report","rid":1,"report":"","sig":""}' },
    "a quote for something else": { reportData: (bytes) => flipped(bytes, 20) },
    "evidence of 300 KB": { evidence: (one) => ({ ...one, gpu: "x".repeat(300_000) }) },
    "evidence that calls itself hardware": {
      evidence: (one) => ({ ...one, tee_type: "tdx", simulated: undefined }),
    },
  };
  for (const [what, script] of Object.entries(shown)) {
    it(`a worker that shows ${what} gets no session`, async () => {
      stream.worker.script = script;
      using wire = await stream.wire();
      await greet(wire);
      assert.deepEqual(await refusal(wire), ["error", "ATTESTATION_UNAVAILABLE", 4495]);
      // The worker is offered again when it shows valid evidence.
      stream.worker.script = {};
      await until(async () => {
        using again = await stream.wire();
        await greet(again);
        return (await again.nextText())["type"] === "attestation";
      });
    });
  }

  for (const [said, code] of [
    ["PRICE_ABOVE_MAX", "PRICE_ABOVE_MAX"],
    ["UNAUTHORIZED", "UPSTREAM_FAILED"],
    ["NO_SUCH_CODE", "UPSTREAM_FAILED"],
  ]) {
    it(`if a worker refuses with ${said}, the client gets ${code}`, async () => {
      const error = JSON.stringify({ type: "error", error: "secret", code: said });
      stream.worker.script = { answer: () => error };
      using wire = await stream.wire();
      await greet(wire);
      const frame = await wire.nextText();
      assert.deepEqual([frame["code"], frame["error"]], [code, "the enclave refused"]);
    });
  }

  it("a worker that refuses a caller's request is not ejected", async () => {
    await using fresh = await startStreamGateway();
    fresh.worker.script = { answer: ({ freshness }) => rateLimited(freshness) };
    for (let times = 0; times < 5; times++) {
      using wire = await fresh.wire();
      await greet(wire, { freshness: "quote" });
      assert.deepEqual(await refusal(wire), ["error", "RATE_LIMITED", 4429]);
    }
    await fresh.chat();
    assert.ok(!fresh.gateway.lines.some((line) => line.includes("ejected")));
  });

  /** Undefined: the signature is of something else. */
  type Change = Partial<UsageReport> | undefined;
  const bills: readonly (readonly [string, string, Change, tokens?: number])[] = [
    ["signed by nobody", "bad_signature", undefined],
    ["of another session", "replay", { session: "A".repeat(22) }],
    ["with a counter that was used", "replay", { ctr: 1 }],
    ["with more tokens than were asked for", "usage_mismatch", { tokens: tokensOf(5, 101) }, 106],
    // The reservation: the bytes of the request's frame and the maximum number of output tokens.
    ["with tokens beyond all reason", "usage_mismatch", { tokens: tokensOf(5e6, 1) }, 288 + 100],
  ];
  for (const [what, reason, change, tokens = 7] of bills) {
    it(`a report ${what} is never verified, and never charged beyond the reservation`, async () => {
      await stream.chat();
      stream.worker.script = change
        ? { report: (report) => ({ ...report, ...change }) }
        : { signReport: (_, sign) => sign(Buffer.from("x")) };
      const { done } = await stream.chat();
      assert.deepEqual([done.usage.verified, done.usage.unverified_reason], [false, reason]);
      assert.equal(done.usedCUMilli, tokens * tokenMilli);
      assert.equal((await stream.charges()).at(-1)?.usedMilliCu, done.usedCUMilli);
    });
  }

  it("the largest number of output tokens is reserved or refused, and the next session is served", async () => {
    for (let times = 0; times < 3; times++) {
      using session = await stream.open({ maxOutputTokens: Number.MAX_SAFE_INTEGER });
      session.ask();
      const message = await session.next();
      if ("text" in message) assert.match(message.text, /"INSUFFICIENT_BALANCE"/);
    }
    using session = await stream.open();
    session.ask();
    assert.equal((await session.answer()).done.usedCUMilli, 7 * tokenMilli);
  });

  it("a missing report ends the session, and the answer is not charged", async () => {
    stream.worker.script = { reportFrame: () => "garbage" };
    const charged = (await stream.charges()).length;
    using session = await stream.open();
    session.ask();
    for (let index = 0; index < 3; index++)
      unwrap(session.channel.open(await session.nextBinary()));
    assert.deepEqual(await refusal(session), ["error", "UPSTREAM_FAILED", 1011]);
    assert.equal((await stream.charges()).length, charged);
  });

  const lost: readonly (readonly [string, Script["frame"]])[] = [
    ["lost", (frame, index) => (index === 0 ? undefined : frame)],
    ["above the limit of a message", () => new Uint8Array(2 << 20)],
  ];
  for (const [what, frame] of lost) {
    it(`a chunk ${what} ends the session, so that the answer cannot be mistaken for complete`, async () => {
      stream.worker.script = frame === undefined ? {} : { frame };
      using session = await stream.open();
      session.ask();
      let message = await session.next();
      while ("binary" in message) message = await session.next();
      assert.match(message.text, /"UPSTREAM_FAILED"/);
      assert.equal(await session.closed, 1011);
    });
  }

  async function leave({ socket }: OpenStream, finish: () => void): Promise<void> {
    const texts = stream.worker.texts.length;
    const charged = (await stream.charges()).length;
    socket.terminate();
    await until(() => stream.worker.texts.length > texts);
    finish();
    await until(async () => (await stream.charges()).length > charged);
    stream.worker.script = {};
  }

  it("a client that leaves is charged for what the worker reports; its retry costs less, once", async () => {
    const attempt = { idempotencyKey: "one-and-the-same" };
    const held = gate();
    stream.worker.script = { pace: held.pass, tokens: tokensOf(5, 1) };
    const asked = stream.worker.requests.length;
    const broken = await stream.open(attempt);
    broken.ask();
    await until(() => stream.worker.requests.length > asked);
    await leave(broken, () => held.open());
    assert.equal((await stream.charges()).at(-1)?.usedMilliCu, 6 * tokenMilli);
    const billed: unknown[] = [];
    for (let again = 0; again < 2; again++) {
      using session = await stream.open(attempt);
      session.ask();
      const { usedCUMilli, paidBeforeCUMilli } = (await session.answer()).done;
      billed.push([usedCUMilli, paidBeforeCUMilli]);
    }
    assert.deepEqual(billed, [
      [1 * tokenMilli, 6 * tokenMilli],
      [7 * tokenMilli, undefined],
    ]);
  });

  // Finding 7.
  it("an answer that reached its client gives no credit for another prompt of the same length", async () => {
    const attempt = { idempotencyKey: "two-answers", pad: 256 } as const;
    const ask = (session: OpenStream, content: string): void =>
      session.ask({ model, messages: [{ role: "user", content }] });
    const held = gate();
    let chunk = 0;
    stream.worker.script = {
      chunks: [{ content: "All" }, { content: " of" }, { content: " it" }, { content: "." }],
      // The client reads three of the four chunks, then leaves.
      pace: () => (++chunk < 4 ? Promise.resolve() : held.pass()),
      tokens: tokensOf(5, 4),
    };
    const left = await stream.open(attempt);
    ask(left, "What is the meaning of life?");
    for (let read = 0; read < 3; read++) unwrap(left.channel.open(await left.nextBinary()));
    await leave(left, () => held.open());
    using session = await stream.open(attempt);
    ask(session, "Who wrote the Magna Carta???");
    const { usedCUMilli, paidBeforeCUMilli } = (await session.answer()).done;
    // One of four chunks of equal length was not sent: a quarter of 9 tokens, rounded down to whole milli-CU.
    const creditMilliCu = Math.floor((9 * tokenMilli) / 4);
    assert.deepEqual(
      [usedCUMilli, paidBeforeCUMilli],
      [7 * tokenMilli - creditMilliCu, creditMilliCu],
    );
    assert.ok((await stream.gauge("sluice_stream_retry_credits_total")) > 0);
  });

  it("an answer without its final frame gives no credit", async () => {
    const attempt = { idempotencyKey: "no-final" };
    stream.worker.script = { frame: (frame, index) => (index === 2 ? undefined : frame) };
    using cut = await stream.open(attempt);
    cut.ask();
    await cut.nextBinary();
    await cut.nextBinary();
    const { usedCUMilli } = await cut.nextText();
    assert.equal(usedCUMilli, 7 * tokenMilli);
    stream.worker.script = {};
    const { done } = await stream.chat(attempt);
    assert.deepEqual([done.usedCUMilli, done.paidBeforeCUMilli], [7 * tokenMilli, undefined]);
  });

  it("a second request that begins while the first is being charged is charged after it", async (t) => {
    const { kept, held } = holdReceipt(t);
    using session = await stream.open();
    session.ask();
    await readFrames(session);
    await until(() => kept.mock.callCount() > 0);
    session.ask();
    await readFrames(session);
    for (let times = 0; times < 3; times++) {
      await stream.chat();
    }
    held.open();
    assert.equal((await session.nextText())["rid"], 1);
    assert.equal((await session.nextText())["rid"], 2);
  });

  const enclaveEnds: readonly (readonly [string, Script, string, number])[] = [
    ["ends the connection", {}, "UPSTREAM_FAILED", 1011],
    ["ends the session", { last: errorFrame(expired) }, "LIMIT_EXCEEDED", 4413],
  ];
  for (const [what, script, code, close] of enclaveEnds) {
    it(`a worker that ${what} directly after its report: the client gets the bill first`, async (t) => {
      await using fresh = await startStreamGateway();
      const { kept, held } = holdReceipt(t);
      fresh.worker.script = script;
      using session = await fresh.open();
      using idle = await fresh.open();
      session.ask();
      await readFrames(session);
      await until(() => kept.mock.callCount() > 0);
      // The gateway has seen the end of the first connection when it has seen that of the second one.
      fresh.worker.cut();
      await refusal(idle);
      held.open();
      assert.equal((await session.nextText())["usedCUMilli"], 7 * tokenMilli);
      assert.deepEqual(await refusal(session), ["error", code, close]);
    });
  }

  it("a gateway that stops while it writes a bill sends it before it closes the session", async (t) => {
    await using fresh = await startStreamGateway();
    const { kept, held } = holdReceipt(t);
    using session = await fresh.open();
    using idle = await fresh.open();
    session.ask();
    await readFrames(session);
    await until(() => kept.mock.callCount() > 0);
    const stopped = fresh.gateway.gateway.stop();
    assert.equal(await idle.closed, 1013);
    held.open();
    assert.equal((await session.nextText())["usedCUMilli"], 7 * tokenMilli);
    assert.equal(await session.closed, 1013);
    await stopped;
  });

  it("a lower coefficient than the offer is applied, and a higher one is not", async () => {
    stream.worker.script = { report: (one) => ({ ...one, coefficient: 500 }) };
    const { done } = await stream.chat();
    // 7 × 3 × 0.5 is 10.5 milli-CU, which is rounded up.
    assert.deepEqual([done.pricing.coefficient, done.usedCUMilli], [500, 11]);
    stream.worker.script = { report: (one) => ({ ...one, coefficient: 9000 }) };
    const more = await stream.chat();
    assert.deepEqual(
      [more.done.pricing.coefficient, more.done.usedCUMilli],
      [1000, 7 * tokenMilli],
    );
  });

  it("an operator's coefficient lowers the enclave's price and never raises it", async () => {
    await using fresh = await startStreamGateway();
    const { key } = await fresh.gateway.issue({ capabilities: ["platform:admin"] });
    const billed: unknown[] = [];
    for (const coefficient of [4000, 500]) {
      const { status } = await fetch(`${fresh.gateway.url}/v1/admin/confidential/alpha/models`, {
        method: "PUT",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: JSON.stringify({
          models: [{ id: model, enabled: true, price_coefficient: coefficient }],
        }),
      });
      assert.equal(status, 200);
      using session = await fresh.open();
      assert.equal(Object(session.attestationJson["offer"]).coefficient, coefficient);
      session.ask();
      const { done } = await session.answer();
      billed.push([done.pricing.coefficient, done.usedCUMilli]);
    }
    assert.deepEqual(billed, [
      [1000, 7 * tokenMilli],
      [500, 11],
    ]);
  });

  it("a session keeps the price that was offered at its start", async () => {
    await using fresh = await startStreamGateway();
    const { worker } = fresh;
    worker.script = { report: (one) => ({ ...one, coefficient: 500 }) };
    using session = await fresh.open();
    worker.price = "1200";
    await until(async () => {
      using other = await fresh.open();
      return JSON.stringify(other.attestationJson["offer"]).includes('"1200"');
    });
    session.ask();
    const { done } = await session.answer();
    assert.deepEqual([done.pricing.pricePerTokenNano, done.usedCUMilli], ["12", 11]);
    const later = await fresh.chat();
    assert.deepEqual(
      [later.done.pricing.pricePerTokenNano, later.done.usedCUMilli],
      ["1200", 1050],
    );
  });

  it("a key without credit is refused before the enclave has the complete request", async () => {
    const poor = await stream.gateway.issue({ plan: "enterprise", cuLimit24hMilli: 100 });
    const asked = stream.worker.requests.length;
    using session = await openStream(await stream.wire(poor.key));
    session.ask();
    assert.deepEqual(await refusal(session), ["error", "INSUFFICIENT_BALANCE", 4402]);
    assert.equal(stream.worker.requests.length, asked);
  });
});

/** Holds the next receipt until the gate is open. */
function holdReceipt({ mock }: TestContext) {
  const held = gate();
  const keep = Object.getOwnPropertyDescriptor(Receipts.prototype, "keep")?.value as Keep;
  async function keepLater(this: Receipts, receipt: Receipt): Promise<boolean> {
    await held.pass();
    return keep.call(this, receipt);
  }
  return { kept: mock.method(Receipts.prototype, "keep", keepLater, { times: 1 }), held };
}

/** Reads an answer without its bill. */
async function readFrames(session: OpenStream): Promise<void> {
  for (let at = 0; at < 3; at++) unwrap(session.channel.open(await session.nextBinary()));
}

function rateLimited(freshness: Hello["freshness"]): string | undefined {
  return freshness === "quote" ? '{"type":"error","error":"","code":"RATE_LIMITED"}' : undefined;
}

function tokensOf(prompt: number, completion: number): UsageReport["tokens"] {
  return { prompt, completion, cached: 0, reasoning: 0 };
}

function flipped(bytes: Uint8Array, at: number): Uint8Array<ArrayBuffer> {
  const altered = new Uint8Array(bytes);
  altered[at] = (altered[at] ?? 0) ^ 1;
  return altered;
}

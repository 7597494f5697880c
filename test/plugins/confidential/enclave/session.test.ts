/** Tests of the state machine of the enclave's end of a session. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { isFault } from "../../../../plugins/confidential/protocol/fault.ts";
import { readReport } from "../../../../plugins/confidential/protocol/usage-report.ts";
import { readTextFrame } from "../../../../plugins/confidential/protocol/text-frames.ts";
import { bytesOf, unwrap, withFlippedBit } from "../protocol/session.ts";
import { ending, prepare } from "./client.ts";
import {
  resultOf,
  startEnclave,
  type OpenedSession,
  type Connected,
  type TestEnclave,
} from "./enclave.ts";
import { UnfinishedBytes } from "../../../../src/memory/unfinished-bytes.ts";

const params = { model: "Demo/Echo-1", messages: [{ role: "user", content: "tell me a secret" }] };

async function connected(): Promise<Connected & { readonly enclave: TestEnclave }> {
  const enclave = await startEnclave();
  return { enclave, ...(await enclave.connect()) };
}

describe("the handshake of an enclave", () => {
  test("answers with the same keyset and a new session id and key each time", async () => {
    const enclave = await startEnclave();
    const [{ client: one }, { client: other }] = [await enclave.connect(), await enclave.connect()];
    const { attested } = one;
    assert.deepEqual(attested.core.keyset, other.attested.core.keyset);
    assert.notDeepEqual(attested.core.session, other.attested.core.session);
    assert.notDeepEqual(attested.core.epk, other.attested.core.epk);
  });

  test("refuses a client that wants what there is not", async () => {
    const enclave = await startEnclave();
    for (const [hello, code, error] of [
      [{ network: "confidential-classic" }, 4404, "NETWORK_NOT_AVAILABLE"],
      [{ termination: "gateway" }, 4404, "TERMINATION_NOT_AVAILABLE"],
      [{ model: "Acme/Model-1" }, 4404, "MODEL_NOT_AVAILABLE"],
      [{ maxCoefficient: 1199 }, 4402, "PRICE_ABOVE_MAX"],
      [{ epk: new Uint8Array(32) }, 4400, "BAD_FRAME"],
    ] as const) {
      const wire = enclave.open({ coefficient: 1200 });
      wire.text((await prepare(hello)).bytes);
      assert.deepEqual(await ending(wire), { code, error });
    }
  });

  test("accepts a client whose maximum price it meets, and a model only while it is served", async () => {
    const enclave = await startEnclave();
    await enclave.connect({ hello: { maxCoefficient: 1200 } }, { coefficient: 1200 });
    enclave.model.activeWorkers = 0;
    const wire = enclave.open();
    wire.text((await prepare()).bytes);
    assert.deepEqual(await ending(wire), { code: 4404, error: "MODEL_NOT_AVAILABLE" });
  });

  test("fails after 10 s of silence, after a second hello, and after a frame that comes too early", async () => {
    const enclave = await startEnclave();
    const silent = enclave.open();
    enclave.clock.advance(9_999);
    enclave.clock.advance(1);
    assert.deepEqual(await ending(silent), { code: 4408, error: "TIMEOUT" });
    const { wire } = await enclave.connect();
    wire.text((await prepare()).bytes);
    assert.deepEqual(await ending(wire), { code: 4400, error: "BAD_FRAME" });
    const early = enclave.open();
    early.binary(new Uint8Array(64));
    assert.deepEqual(await ending(early), { code: 4400, error: "BAD_FRAME" });
  });

  test("of a client that disconnects meanwhile sends nothing", async () => {
    const enclave = await startEnclave();
    const wire = enclave.open();
    wire.text((await prepare()).bytes);
    wire.session.abort();
    const next = await enclave.connect();
    assert.ok(next.client.attested);
    wire.binary(new Uint8Array(64));
    wire.session.stop();
    assert.equal(wire.sent, 0);
  });
});

describe("a request in an enclave", () => {
  test("reaches the model with what hello allows, and comes back with usage and a signed report", async () => {
    const enclave = await startEnclave();
    const { wire, client } = await enclave.connect({}, { coefficient: 1200 });
    for (const frame of client.request(1, { ...params, temperature: 0.5, stream: false, n: 1 })) {
      wire.binary(frame);
    }
    const [asked] = enclave.model.asked;
    assert.ok(asked);
    assert.deepEqual(asked.params, {
      ...params,
      temperature: 0.5,
      n: 1,
      max_tokens: 64,
      stream: true,
      stream_options: { include_usage: true },
    });
    assert.equal(asked.request.promptBytes, 16);
    assert.equal(asked.request.maxTokens, 64);
    assert.equal(asked.request.streamed, true);
    asked.say("The");
    asked.end("stop", { completionTokens: 7, reasoningTokens: 2, cachedTokens: 4 });
    const { text, final, report } = await client.answer(1);
    assert.equal(text, "The");
    assert.deepEqual(final, {
      finish_reason: "stop",
      usage: {
        prompt_tokens: 5,
        completion_tokens: 7,
        total_tokens: 12,
        prompt_tokens_details: { cached_tokens: 4 },
        completion_tokens_details: { reasoning_tokens: 2 },
      },
    });
    assert.deepEqual(report.tokens, { prompt: 5, completion: 7, cached: 4, reasoning: 2 });
    assert.equal(report.finish, "stop");
    assert.equal(report.coefficient, 1200);
    assert.equal(report.iat, enclave.now);
    assert.equal(report.ctr, 1);
  });

  test("reports no part that is larger than its whole, and no more than the maximum of hello", async () => {
    const { enclave, client } = await connected();
    for (const [said, completion, reasoning] of [
      [7, 7, 7],
      [9_999, 64, 64],
    ] as const) {
      const answered = client.ask(params);
      const usage = { completionTokens: said, reasoningTokens: said + 2, cachedTokens: 50 };
      enclave.model.asked.at(-1)?.end("stop", usage);
      const expected = { prompt: 5, completion, cached: 5, reasoning };
      assert.deepEqual((await answered).report.tokens, expected);
    }
  });

  test("can follow another one in the same session, and reports are numbered across all sessions of a keyset", async () => {
    const enclave = await startEnclave();
    const [one, other] = [await enclave.connect(), await enclave.connect()];
    const counters: number[] = [];
    for (const { client } of [one, other, one]) {
      const answered = client.ask(params);
      enclave.model.asked.at(-1)?.end("length");
      const { report } = await answered;
      assert.equal(report.finish, "length");
      // The coefficient of the upstream worker, because the enclave does not have one.
      assert.equal(report.coefficient, 1500);
      counters.push(report.ctr);
    }
    assert.deepEqual(counters, [1, 2, 3]);
  });

  const refused = [
    ["another model", { ...params, model: "Demo/Other" }, "MODEL_NOT_AVAILABLE"],
    ["more tokens than hello", { ...params, max_tokens: 65 }, "LIMIT_EXCEEDED"],
    ["more of the newer kind", { ...params, max_completion_tokens: 65 }, "LIMIT_EXCEEDED"],
    ["no whole number of tokens", { ...params, max_tokens: 1.5 }, "INVALID_REQUEST"],
    ["no tokens", { ...params, max_tokens: 0 }, "INVALID_REQUEST"],
    ["two choices", { ...params, n: 2 }, "INVALID_REQUEST"],
    ["no messages", { model: "Demo/Echo-1", messages: [] }, "INVALID_REQUEST"],
    ["a list", [params], "INVALID_REQUEST"],
    ["no JSON", bytesOf("{"), "INVALID_REQUEST"],
    [
      "a name twice",
      bytesOf('{"model":"Demo/Echo-1","model":"x","messages":[1]}'),
      "INVALID_REQUEST",
    ],
  ] as const;
  test("is refused in an encrypted frame, free of charge; the session continues", async () => {
    const { enclave, client } = await connected();
    for (const [what, asked, code] of refused) {
      const { final, report, deltas } = await client.ask(asked);
      assert.deepEqual([final.error?.code, final.finish_reason], [code, "error"], what);
      assert.equal(report.finish, "error");
      assert.deepEqual(report.tokens, { prompt: 0, completion: 0, cached: 0, reasoning: 0 });
      assert.deepEqual(deltas, []);
    }
    assert.equal(enclave.model.asked.length, 0);
    const again = client.ask({ ...params, max_tokens: 64, max_completion_tokens: 3 });
    assert.equal(enclave.model.asked[0]?.params["max_tokens"], 3);
    enclave.model.asked[0].end();
    assert.equal((await again).final.finish_reason, "stop");
    enclave.model.activeWorkers = 0;
    assert.equal((await client.ask(params)).final.error?.code, "MODEL_NOT_AVAILABLE");
  });

  const failures = [
    ["rejected", "INVALID_REQUEST"],
    ["notServed", "MODEL_NOT_AVAILABLE"],
    ["unavailable", "UPSTREAM_FAILED"],
    ["broken", "UPSTREAM_FAILED"],
    ["timedOut", "TIMEOUT"],
  ] as const;
  test("that fails reports the tokens produced so far", async () => {
    const { enclave, client } = await connected();
    for (const [failure, code] of failures) {
      const answered = client.ask(params);
      const asked = enclave.model.asked.at(-1);
      asked?.say("The");
      asked?.say(" half");
      asked?.reader.onError(failure, resultOf({ completionTokens: 2 }));
      const { text, final, report } = await answered;
      assert.equal(text, "The half");
      assert.equal(final.error?.code, code);
      assert.deepEqual([report.finish, report.tokens.completion], ["error", 2]);
    }
  });
});

describe("a cancel", () => {
  test("before the first token is free", async () => {
    const { enclave, wire, client } = await connected();
    for (const frame of client.request(1, params)) wire.binary(frame);
    wire.binary(unwrap(client.channel.seal("cancel", 1, new Uint8Array())));
    const { deltas, report } = await client.answer(1);
    assert.deepEqual(deltas, []);
    assert.deepEqual(report.tokens, { prompt: 0, completion: 0, cached: 0, reasoning: 0 });
    // Later output of the model is ignored.
    enclave.model.asked[0]?.say("late");
  });

  test("that crosses the final has no effect", async () => {
    const { enclave, wire, client } = await connected();
    for (const frame of client.request(1, params)) wire.binary(frame);
    enclave.model.asked[0]?.end();
    wire.binary(unwrap(client.channel.seal("cancel", 1, new Uint8Array())));
    assert.equal((await client.answer(1)).report.finish, "stop");
  });
});

describe("faults that end a session", () => {
  test("the running answer is reported first, so that breaking a session does not make answers free", async () => {
    const { enclave, wire, client } = await connected();
    for (const frame of client.request(1, params)) wire.binary(frame);
    enclave.model.asked[0]?.say("The");
    enclave.model.produced = resultOf({ completionTokens: 1 });
    const { header } = unwrap(client.channel.open(await frameFrom(wire)));
    assert.equal(header.type, "chunk");
    const cancel = unwrap(client.channel.seal("cancel", 1, new Uint8Array()));
    wire.binary(withFlippedBit(cancel, cancel.length - 1));
    const message = await wire.next();
    assert.ok(message.kind === "text", JSON.stringify(message));
    const frame = readTextFrame(Buffer.from(message.text));
    assert.ok(!isFault(frame) && frame.kind === "report");
    const report = readReport(frame.report);
    assert.deepEqual([report?.rid, report?.finish, report?.tokens.completion], [1, "cancel", 1]);
    assert.deepEqual(await wire.next(), { kind: "closed", code: 4400, error: "BAD_FRAME" });
    assert.equal(enclave.model.asked[0]?.isAborted, true);
  });

  test("nothing is sent after a fault, and the model is stopped", async () => {
    const { enclave, wire, client } = await connected();
    const content = "x".repeat(80_000);
    const long = { ...params, messages: [{ role: "user", content }] };
    for (const frame of client.request(1, long)) wire.binary(frame);
    const [asked] = enclave.model.asked;
    wire.binary(new Uint8Array(3));
    assert.deepEqual(await ending(wire), { code: 4400, error: "BAD_FRAME" });
    assert.equal(asked?.isAborted, true);
    asked.say("more");
    asked.end();
    wire.session.onDrain();
    enclave.clock.advance(4_000_000);
    assert.equal(wire.sent, 0);
  });
});

describe("timeouts of a session", () => {
  test("a session ends after 120 s without a frame, unless an answer is running", async () => {
    const { enclave, wire, client } = await connected();
    enclave.clock.advance(119_000);
    for (const frame of client.request(1, params)) wire.binary(frame);
    enclave.clock.advance(400_000);
    enclave.model.asked[0]?.end();
    assert.equal((await client.answer(1)).report.finish, "stop");
    enclave.clock.advance(240_000);
    assert.deepEqual(await ending(wire), { code: 4408, error: "TIMEOUT" });
  });

  test("a running answer is ended and reported before the keyset expires, and then the session ends", async () => {
    const { enclave, wire, client } = await connected();
    const { notAfter } = client.attested.keyset;
    for (const frame of client.request(1, params)) wire.binary(frame);
    enclave.model.produced = resultOf({ completionTokens: 1 });
    enclave.model.asked[0]?.say("The");
    enclave.clock.advance((notAfter - enclave.now) * 1000 - 10_000);
    const { report } = await client.answer(1);
    assert.equal(report.finish, "cancel");
    assert.ok(report.iat < notAfter);
    assert.deepEqual(await ending(wire), { code: 4413, error: "LIMIT_EXCEEDED" });
  });

  test("a session without a request ends before its keyset expires, even if frames arrive", async () => {
    const { enclave, wire, client } = await connected();
    const { notAfter } = client.attested.keyset;
    const end = notAfter * 1000 - 10_000;
    while (enclave.clock.now() + 100_000 < end) {
      enclave.clock.advance(100_000);
      const answered = client.ask(params);
      enclave.model.asked.at(-1)?.end();
      await answered;
    }
    enclave.clock.advance(100_000);
    assert.deepEqual(await ending(wire), { code: 4413, error: "LIMIT_EXCEEDED" });
  });
});

describe("a session that is stopped", () => {
  test("closes immediately if no request is running", async () => {
    const enclave = await startEnclave();
    const { wire } = await enclave.connect();
    wire.session.stop();
    assert.deepEqual(await ending(wire), { code: 1000, error: undefined });
    const waiting = enclave.open();
    waiting.session.stop();
    assert.deepEqual(await ending(waiting), { code: 1013, error: undefined });
  });
});

async function frameFrom(wire: OpenedSession): Promise<Uint8Array> {
  const event = await wire.next();
  assert.ok(event.kind === "binary", JSON.stringify(event));
  return event.frame;
}

const pieceBytes = 32_768;
const limits = { maxBytes: 4 * pieceBytes, maxBytesPerOwner: 2 * pieceBytes };

/** Sends one piece of request 1 that is not its last. */
function send({ wire, client }: Connected, bytes = pieceBytes): void {
  wire.binary(unwrap(client.channel.seal("request", 1, Buffer.alloc(bytes, 0x20), false)));
}

interface Bounded {
  readonly enclave: TestEnclave;
  readonly held: () => number;
  readonly connect: (owner: string) => Promise<Connected>;
}

async function startBounded(): Promise<Bounded> {
  const enclave = await startEnclave();
  let held = 0;
  const unfinished = new UnfinishedBytes((bytes) => {
    held = bytes;
  });
  return {
    enclave,
    held: () => held,
    connect: (owner) => enclave.connect({}, { hold: () => unfinished.hold(owner, limits) }),
  };
}

describe("a request that arrives too slowly", () => {
  test("ends its session if less than 64 KiB arrive in 10 s, and after one minute", async () => {
    const enclave = await startEnclave();
    const slow = await enclave.connect();
    const steady = await enclave.connect();
    send(slow, 1);
    send(steady);
    enclave.clock.advance(1_000);
    for (let seconds = 1; seconds < 11; seconds++) {
      send(slow, 1);
      send(steady, 6_600);
      enclave.clock.advance(1_000);
    }
    assert.deepEqual(await ending(slow.wire), { code: 4408, error: "TIMEOUT" });
    for (let seconds = 11; seconds < 60; seconds++) {
      send(steady, 8_192);
      enclave.clock.advance(1_000);
    }
    assert.deepEqual(await ending(steady.wire), { code: 4408, error: "TIMEOUT" });
  });
});

describe("the memory of requests that have not arrived completely", () => {
  test("is released when a request is complete, cancelled or broken", async () => {
    const { enclave, held, connect } = await startBounded();
    const complete = await connect("a");
    send(complete);
    assert.equal(held(), pieceBytes);
    const answered = complete.client.answer(1);
    complete.wire.binary(
      unwrap(complete.client.channel.seal("request", 1, Buffer.from("x"), true)),
    );
    await answered;
    assert.equal(held(), 0);
    const cancelled = await connect("a");
    send(cancelled);
    const report = cancelled.client.answer(1);
    cancelled.wire.binary(
      unwrap(cancelled.client.channel.seal("cancel", 1, Buffer.alloc(0), false)),
    );
    assert.equal((await report).report.finish, "cancel");
    assert.equal(held(), 0);
    // The time limit of the request ends with the request.
    enclave.clock.advance(60_000);
    const broken = await connect("a");
    send(broken);
    broken.wire.binary(Buffer.alloc(64));
    await ending(broken.wire);
    assert.equal(held(), 0);
  });
});

describe("the memory of a whole request", () => {
  test("stays counted while the model is silent, and is released with the first chunk or the end", async () => {
    const { enclave, held, connect } = await startBounded();
    const ask = async (): Promise<Connected> => {
      const session = await connect("a");
      for (const frame of session.client.request(1, {
        model: "Demo/Echo-1",
        messages: [{ role: "user", content: "x".repeat(pieceBytes - 1_000) }],
      })) {
        session.wire.binary(frame);
      }
      return session;
    };
    const one = await ask();
    const two = await ask();
    assert.equal(enclave.model.asked.length, 2);
    const full = held();
    assert.ok(full > 2 * (pieceBytes - 1_000), `${full} bytes`);
    const three = await connect("a");
    send(three);
    assert.deepEqual(await ending(three.wire), { code: 4429, error: "RATE_LIMITED" });
    enclave.model.asked[0]?.end();
    assert.equal(held(), full / 2);
    two.wire.session.abort();
    assert.equal(held(), 0);
    one.wire.session.abort();
  });
});

describe("an exception in a callback", () => {
  test("ends only its own session and is logged", async () => {
    const enclave = await startEnclave();
    const other = await enclave.connect();
    const thrown = new Error("the catalogue broke");
    const find = enclave.model.offer;
    let calls = 0;
    const session = await enclave.connect(
      {},
      {
        find() {
          // The handshake calls it first, and the request second.
          if (++calls > 1) throw thrown;
          return find;
        },
      },
    );
    for (const frame of session.client.request(1, { model: "Demo/Echo-1", messages: [{}] })) {
      session.wire.binary(frame);
    }
    assert.deepEqual(await ending(session.wire), { code: 1011, error: undefined });
    assert.ok(
      enclave.lines.some((line) => line.startsWith("a session of the encrypted stream failed")),
    );
    const answered = other.client.ask({ model: "Demo/Echo-1", messages: [{ role: "user" }] });
    enclave.model.asked[0]?.end();
    assert.equal((await answered).report.finish, "stop");
  });
});

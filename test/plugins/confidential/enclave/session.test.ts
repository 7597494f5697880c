import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { isFault } from "../../../../plugins/confidential/protocol/fault.ts";
import { readKeyset } from "../../../../plugins/confidential/protocol/keyset.ts";
import { nodeSuite } from "../../../../plugins/confidential/protocol/node-crypto.ts";
import { readReport } from "../../../../plugins/confidential/protocol/usage-report.ts";
import {
  evidenceDigest,
  sessionReportData,
} from "../../../../plugins/confidential/protocol/report-data.ts";
import { readTextFrame } from "../../../../plugins/confidential/protocol/text-frames.ts";
import { verifyEvidence } from "../../../../plugins/confidential/verify/verify.ts";
import { bytesOf, helloJson, unwrap, withFlippedBit } from "../protocol/session.ts";
import { ending, prepare } from "./client.ts";
import {
  type Connected,
  resultOf,
  startEnclave,
  type OpenedSession,
  type TestEnclave,
} from "./enclave.ts";

const params = { model: "Demo/Echo-1", messages: [{ role: "user", content: "tell me a secret" }] };

describe("the handshake of an enclave", () => {
  test("answers with a keyset that its evidence binds, and with a new session id each time", async () => {
    const enclave = await startEnclave();
    const [{ client: one }, { client: other }] = [await enclave.connect(), await enclave.connect()];
    const { attested, attestation } = one;
    const report = await verifyEvidence(
      attestation.evidence,
      {
        reportData: await sessionReportData(nodeSuite, attested.keysetDigest, undefined, "worker"),
      },
      {
        imageHashes: "any",
        allowSimulated: true,
        simulatedRoots: [enclave.provider.root ?? ""],
        treatSimulatedAsVerified: true,
      },
      enclave.clock.now(),
    );
    assert.equal(report.verified, true);
    assert.deepEqual(attested.core.keyset, other.attested.core.keyset);
    assert.notDeepEqual(attested.core.session, other.attested.core.session);
    assert.notDeepEqual(attested.core.epk, other.attested.core.epk);
  });

  test("omits the evidence only for a client that already has it", async () => {
    const enclave = await startEnclave();
    const { client } = await enclave.connect();
    const digest = (await evidenceDigest(nodeSuite, client.attestation.evidence)) ?? "";
    const known = await enclave.connect({ hello: { evidence: "known", known: [digest] } });
    assert.equal(known.client.attestation.evidence, undefined);
    assert.equal(known.client.attestation.evidenceDigest, digest);
    const foreign = `sha256:${"ab".repeat(32)}`;
    for (const hello of [
      { evidence: "known", known: [foreign] },
      { evidence: "full", known: [digest] },
    ] as const) {
      const full = await enclave.connect({ hello });
      assert.deepEqual(full.client.attestation.evidence, client.attestation.evidence);
    }
  });

  test("makes a quote for a client's nonce on request, at a limited rate", async () => {
    const enclave = await startEnclave();
    const nonce = new Uint8Array(32).fill(77);
    const hello = { freshness: "quote", nonce } as const;
    const { client } = await enclave.connect({ hello });
    const { keysetDigest } = client.attested;
    const policy = { imageHashes: "any", allowSimulated: true } as const;
    const roots = [enclave.provider.root ?? ""];
    const verify = async (bound: Uint8Array | undefined): Promise<string> => {
      const reportData = await sessionReportData(nodeSuite, keysetDigest, bound, "worker");
      const report = await verifyEvidence(
        client.attestation.evidence,
        { reportData },
        { ...policy, simulatedRoots: roots },
        enclave.clock.now(),
      );
      return report.assurance;
    };
    assert.equal(await verify(nonce), "simulated");
    assert.equal(await verify(undefined), "none");
    for (let more = 0; more < 31; more++) await enclave.connect({ hello });
    const wire = enclave.open();
    wire.text((await prepare(hello)).bytes);
    assert.deepEqual(await ending(wire), { code: 4429, error: "RATE_LIMITED" });
    enclave.clock.advance(100);
    await enclave.connect({ hello });
  });

  test("contains the digest of the evidence of a gateway's upstream", async () => {
    const enclave = await startEnclave("gateway");
    const upstream = `sha256:${"cd".repeat(32)}`;
    const { client } = await enclave.connect({ hello: { termination: "gateway" } }, { upstream });
    assert.equal(client.attested.core.upstream, upstream);
    assert.equal(unwrap(readKeyset(client.attested.core.keyset)).role, "gateway");
  });

  const refusals = [
    ["another network", { network: "confidential-classic" }, 4404, "NETWORK_NOT_AVAILABLE"],
    ["another role", { termination: "gateway" }, 4404, "TERMINATION_NOT_AVAILABLE"],
    ["another model", { model: "Acme/Model-1" }, 4404, "MODEL_NOT_AVAILABLE"],
    ["a lower price", { maxCoefficient: 1199 }, 4402, "PRICE_ABOVE_MAX"],
  ] as const;
  for (const [what, hello, code, error] of refusals) {
    test(`refuses a client that wants ${what}`, async () => {
      const wire = (await startEnclave()).open({ coefficient: 1200 });
      wire.text((await prepare(hello)).bytes);
      assert.deepEqual(await ending(wire), { code, error });
    });
  }

  test("accepts a client whose maximum price it meets, and a model only while it is served", async () => {
    const enclave = await startEnclave();
    await enclave.connect({ hello: { maxCoefficient: 1200 } }, { coefficient: 1200 });
    enclave.model.activeWorkers = 0;
    const wire = enclave.open();
    wire.text((await prepare()).bytes);
    assert.deepEqual(await ending(wire), { code: 4404, error: "MODEL_NOT_AVAILABLE" });
  });

  test("refuses keys of low order, other versions and suites, and invalid hellos", async () => {
    const enclave = await startEnclave();
    const bad = [
      [(await prepare({ epk: new Uint8Array(32) })).bytes, 4400, "BAD_FRAME"],
      [helloJson({ v: 2 }), 4426, "SUITE_UNSUPPORTED"],
      [helloJson({ suite: "p256-hkdf-sha256-aes256gcm" }), 4426, "SUITE_UNSUPPORTED"],
      [helloJson({ type: "done" }), 4400, "BAD_FRAME"],
      [helloJson({ max_output_tokens: 0 }), 4400, "BAD_FRAME"],
      [bytesOf("{"), 4400, "BAD_FRAME"],
      [bytesOf('{"type":"hello","type":"hello"}'), 4400, "BAD_FRAME"],
      [new Uint8Array(20_000).fill(32), 4400, "BAD_FRAME"],
    ] as const;
    for (const [bytes, code, error] of bad) {
      const wire = enclave.open();
      wire.text(bytes);
      assert.deepEqual(await ending(wire), { code, error });
    }
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

  test("never reports a part that is larger than its whole, whatever the model reports", async () => {
    const enclave = await startEnclave();
    const { client } = await enclave.connect();
    const answered = client.ask(params);
    enclave.model.asked.at(-1)?.end("stop", {
      completionTokens: 7,
      reasoningTokens: 9,
      cachedTokens: 50,
    });
    const { report } = await answered;
    assert.deepEqual(report.tokens, { prompt: 5, completion: 7, cached: 5, reasoning: 7 });
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

  test("may consist of many frames", async () => {
    const enclave = await startEnclave();
    const { client } = await enclave.connect();
    const content = "x".repeat(200_000);
    const answered = client.ask({ ...params, messages: [{ role: "user", content }] });
    const [asked] = enclave.model.asked;
    assert.equal(asked?.request.promptBytes, 200_000);
    asked.end();
    assert.equal((await answered).final.finish_reason, "stop");
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
  for (const [what, asked, code] of refused) {
    test(`is refused in an encrypted frame, free of charge, when it has ${what}; the session continues`, async () => {
      const enclave = await startEnclave();
      const { client } = await enclave.connect();
      const { final, report, deltas } = await client.ask(asked);
      assert.equal(final.error?.code, code);
      assert.equal(final.finish_reason, "error");
      assert.equal(report.finish, "error");
      assert.deepEqual(report.tokens, { prompt: 0, completion: 0, cached: 0, reasoning: 0 });
      assert.deepEqual(deltas, []);
      assert.equal(enclave.model.asked.length, 0);
      const again = client.ask({ ...params, max_tokens: 64, max_completion_tokens: 3 });
      assert.equal(enclave.model.asked[0]?.params["max_tokens"], 3);
      enclave.model.asked[0].end();
      assert.equal((await again).final.finish_reason, "stop");
    });
  }

  test("is refused when the model is no longer served", async () => {
    const enclave = await startEnclave();
    const { client } = await enclave.connect();
    enclave.model.activeWorkers = 0;
    const { final } = await client.ask(params);
    assert.equal(final.error?.code, "MODEL_NOT_AVAILABLE");
  });

  const failures = [
    ["rejected", "INVALID_REQUEST"],
    ["notServed", "MODEL_NOT_AVAILABLE"],
    ["unavailable", "UPSTREAM_FAILED"],
    ["broken", "UPSTREAM_FAILED"],
    ["timedOut", "TIMEOUT"],
  ] as const;
  for (const [failure, code] of failures) {
    test(`that fails (${failure}) reports the tokens produced so far`, async () => {
      const enclave = await startEnclave();
      const { client } = await enclave.connect();
      const answered = client.ask(params);
      const [asked] = enclave.model.asked;
      asked?.say("The");
      asked?.say(" half");
      asked?.reader.onError(failure, resultOf({ completionTokens: 2 }));
      const { text, final, report } = await answered;
      assert.equal(text, "The half");
      assert.equal(final.error?.code, code);
      assert.equal(report.finish, "error");
      assert.equal(report.tokens.completion, 2);
    });
  }

  test("is never reported above the maximum of hello, whatever the model reports", async () => {
    const enclave = await startEnclave();
    const { client } = await enclave.connect();
    const answered = client.ask(params);
    enclave.model.asked[0]?.end("length", { completionTokens: 9_999, reasoningTokens: 9_000 });
    assert.deepEqual((await answered).report.tokens, {
      prompt: 5,
      completion: 64,
      cached: 0,
      reasoning: 64,
    });
  });
});

describe("a cancel", () => {
  async function cancelling(enclave: TestEnclave, produced: boolean): Promise<Connected> {
    const connected = await enclave.connect();
    const { wire, client } = connected;
    for (const frame of client.request(1, params)) wire.binary(frame);
    if (produced) enclave.model.asked[0]?.say("The");
    enclave.model.produced = produced ? resultOf({ completionTokens: 1 }) : undefined;
    wire.binary(unwrap(client.channel.seal("cancel", 1, new Uint8Array())));
    return connected;
  }

  test("stops the model and delivers and reports the tokens produced so far", async () => {
    const enclave = await startEnclave();
    const { client } = await cancelling(enclave, true);
    const { text, final, report } = await client.answer(1);
    assert.equal(enclave.model.asked[0]?.isAborted, true);
    assert.equal(text, "The");
    assert.equal(final.finish_reason, "cancel");
    assert.equal(final.error, undefined);
    assert.equal(report.finish, "cancel");
    assert.equal(report.tokens.completion, 1);
    // Later output of the model is ignored.
    enclave.model.asked[0].say("late");
  });

  test("before the first token is free", async () => {
    const enclave = await startEnclave();
    const { client } = await cancelling(enclave, false);
    const { deltas, report } = await client.answer(1);
    assert.deepEqual(deltas, []);
    assert.deepEqual(report.tokens, { prompt: 0, completion: 0, cached: 0, reasoning: 0 });
  });

  test("before the request is complete ends it without asking the model", async () => {
    const enclave = await startEnclave();
    const { wire, client } = await enclave.connect();
    wire.binary(unwrap(client.channel.seal("request", 1, bytesOf("{"), false)));
    wire.binary(unwrap(client.channel.seal("cancel", 1, new Uint8Array())));
    const { report } = await client.answer(1);
    assert.equal(report.finish, "cancel");
    assert.equal(enclave.model.asked.length, 0);
    const answered = client.request(2, params);
    for (const frame of answered) wire.binary(frame);
    assert.deepEqual(enclave.model.asked[0]?.params["messages"], params.messages);
  });

  test("that crosses the final has no effect", async () => {
    const enclave = await startEnclave();
    const { wire, client } = await enclave.connect();
    for (const frame of client.request(1, params)) wire.binary(frame);
    enclave.model.asked[0]?.end();
    wire.binary(unwrap(client.channel.seal("cancel", 1, new Uint8Array())));
    assert.equal((await client.answer(1)).report.finish, "stop");
  });
});

describe("faults that end a session", () => {
  interface Asking {
    readonly enclave: TestEnclave;
    readonly wire: OpenedSession;
    /** The frames of one request. */
    readonly frames: readonly Uint8Array[];
  }

  async function asking(): Promise<Asking> {
    const enclave = await startEnclave();
    const { wire, client } = await enclave.connect();
    const content = "x".repeat(80_000);
    const long = { ...params, messages: [{ role: "user", content }] };
    return { enclave, wire, frames: client.request(1, long) };
  }

  test("a flipped bit anywhere in a frame ends the session", async () => {
    const { frames } = await asking();
    const length = frames[0]?.length ?? 0;
    for (const at of [0, 1, 2, 3, 4, 7, 16, 40, length - 1]) {
      const { enclave, wire, frames: sent } = await asking();
      wire.binary(withFlippedBit(sent[0] ?? new Uint8Array(), at));
      assert.deepEqual(await ending(wire), { code: 4400, error: "BAD_FRAME" }, `byte ${at}`);
      assert.equal(enclave.model.asked.length, 0);
    }
    for (const at of [8, 11, 12, 15]) {
      const { wire, frames: sent } = await asking();
      wire.binary(withFlippedBit(sent[0] ?? new Uint8Array(), at));
      assert.deepEqual(await ending(wire), { code: 4409, error: "REPLAY" }, `byte ${at}`);
    }
  });

  test("the running answer is reported first, so that breaking a session does not make answers free", async () => {
    const enclave = await startEnclave();
    const { wire, client } = await enclave.connect();
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
    const { enclave, wire, frames } = await asking();
    for (const frame of frames) wire.binary(frame);
    const [asked] = enclave.model.asked;
    wire.binary(new Uint8Array(3));
    assert.deepEqual(await ending(wire), { code: 4400, error: "BAD_FRAME" });
    assert.equal(asked?.isAborted, true);
    asked.say("more");
    asked.end();
    wire.session.onDrain();
    enclave.clock.advance(200_000);
    assert.equal(wire.sent, 0);
  });

  test("no plaintext of a request appears in the log or in an error", async () => {
    const { enclave, wire, frames } = await asking();
    for (const frame of frames) wire.binary(frame);
    enclave.model.asked[0]?.say("The answer is a secret, too");
    enclave.model.asked[0]?.reader.onError("broken", undefined);
    wire.binary(new Uint8Array(3));
    await ending(wire);
    assert.doesNotMatch(enclave.lines.join("\n"), /secret|xxx/);
  });
});

describe("timeouts of a session", () => {
  test("a session ends after 120 s without a frame, unless an answer is running", async () => {
    const enclave = await startEnclave();
    const { wire, client } = await enclave.connect();
    enclave.clock.advance(119_000);
    for (const frame of client.request(1, params)) wire.binary(frame);
    enclave.clock.advance(400_000);
    enclave.model.asked[0]?.end();
    assert.equal((await client.answer(1)).report.finish, "stop");
    enclave.clock.advance(240_000);
    assert.deepEqual(await ending(wire), { code: 4408, error: "TIMEOUT" });
  });

  test("a session with an incomplete request is idle, too", async () => {
    const enclave = await startEnclave();
    const { wire, client } = await enclave.connect();
    wire.binary(unwrap(client.channel.seal("request", 1, bytesOf("{"), false)));
    enclave.clock.advance(120_000);
    assert.deepEqual(await ending(wire), { code: 4408, error: "TIMEOUT" });
  });

  test("a running answer is ended and reported before the keyset expires, and then the session ends", async () => {
    const enclave = await startEnclave();
    const { wire, client } = await enclave.connect();
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
    const enclave = await startEnclave();
    const { wire, client } = await enclave.connect();
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

describe("a peer whose buffer is full", () => {
  test("pauses the model without growing buffers, and then resumes it", async () => {
    const enclave = await startEnclave();
    const { wire, client } = await enclave.connect();
    for (const frame of client.request(1, params)) wire.binary(frame);
    const [asked] = enclave.model.asked;
    assert.ok(asked);
    wire.hasRoom = false;
    asked.say("a");
    assert.equal(asked.isPaused, true);
    assert.equal(wire.sent, 1);
    for (let more = 0; more < 100; more++) asked.say("b");
    enclave.clock.advance(1_000);
    assert.equal(wire.sent, 1);
    wire.session.onDrain();
    // There is still no room: the queued text was sent, and the model is still paused.
    assert.equal(wire.sent, 2);
    assert.equal(asked.isPaused, true);
    wire.hasRoom = true;
    wire.session.onDrain();
    assert.equal(asked.isPaused, false);
    asked.say("c");
    asked.end();
    assert.equal((await client.answer(1)).text, `a${"b".repeat(100)}c`);
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

  test("finishes the running answer, reports it and closes", async () => {
    const enclave = await startEnclave();
    const { wire, client } = await enclave.connect();
    for (const frame of client.request(1, params)) wire.binary(frame);
    assert.equal(wire.session.answering, "Demo/Echo-1");
    wire.session.stop();
    enclave.model.asked[0]?.say("The");
    enclave.model.asked[0]?.end();
    assert.equal((await client.answer(1)).text, "The");
    assert.deepEqual(await wire.next(), { kind: "closed", code: 1000, error: undefined });
    assert.equal(wire.session.answering, undefined);
  });

  test("stops the model if its peer has disconnected", async () => {
    const enclave = await startEnclave();
    const { wire, client } = await enclave.connect();
    for (const frame of client.request(1, params)) wire.binary(frame);
    wire.session.abort();
    assert.equal(enclave.model.asked[0]?.isAborted, true);
    enclave.model.asked[0].end();
    enclave.clock.advance(4_000_000);
    assert.equal(wire.sent, 0);
  });
});

async function frameFrom(wire: OpenedSession): Promise<Uint8Array> {
  const event = await wire.next();
  assert.ok(event.kind === "binary", JSON.stringify(event));
  return event.frame;
}

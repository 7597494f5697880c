/** Sessions of the client with a scripted server: requests, answers, handshakes, and every way to end. */
import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";
import { connect, ConfidentialError } from "../../../../plugins/confidential/client/client.ts";
import type { Answer, ConnectOptions } from "../../../../plugins/confidential/client/client.ts";
import { handshakeMs, idleMs } from "../../../../plugins/confidential/protocol/limits.ts";
import { until } from "../confidential-relay/wait.ts";
import { platform, pricing, start, startFakeGateway, tokens, usedCUMilli } from "./fake-gateway.ts";
import type { Script } from "./fake-gateway.ts";

const messages = [{ role: "user", content: "a secret" }];

async function textOf(answer: Answer): Promise<string> {
  let text = "";
  for await (const { content } of answer) text += content ?? "";
  return text;
}

function rejectsWith(promise: Promise<unknown>, code: string): Promise<void> {
  return assert.rejects(promise, (error) => {
    assert.ok(error instanceof ConfidentialError, String(error));
    assert.equal(error.code, code);
    return true;
  });
}

/** Opens a session, which is closed after the test. */
async function open(t: TestContext, script: Script = {}, more: Partial<ConnectOptions> = {}) {
  const gateway = await startFakeGateway(t, script);
  const session = await connect({ ...gateway.options, ...more });
  t.after(() => session.close());
  return { gateway, session };
}

describe("a session", () => {
  test("is verified before the prompt is sent, and the client itself verifies the report of the answer", async (t) => {
    const gateway = await startFakeGateway(t);
    const session = await connect(gateway.options);
    assert.equal(gateway.frames, 0);
    assert.equal(session.assurance, "simulated");
    assert.equal(session.termination, "worker");
    assert.equal(session.role, "worker");
    assert.equal(session.evidence.imageHash, platform.imageHash);
    assert.equal(session.expiresAt, start + 3_000_000);
    assert.deepEqual(
      session.checks.filter(({ result }) => result === "fail"),
      [],
    );
    assert.equal(session.checks.at(-1)?.name, "session_keys");
    const answer = session.chat({ messages, max_tokens: 32, temperature: 0 });
    assert.equal(await textOf(answer), "Hello");
    const final = await answer.final;
    assert.equal(final.verified, true);
    assert.equal(final.usage.verified, true);
    assert.equal(final.usage.total_tokens, 14);
    assert.equal(final.finishReason, "stop");
    assert.equal(final.usedCUMilli, usedCUMilli);
    assert.equal(final.recomputedCUMilli, usedCUMilli);
    assert.deepEqual(final.report?.tokens, tokens);
    assert.deepEqual(final.pricing, pricing);
    assert.deepEqual(gateway.prompts, [
      { messages, max_tokens: 32, temperature: 0, model: "demo", stream: true },
    ]);
    assert.deepEqual(gateway.upgrades, [
      { protocols: "confidential.v1", authorization: "Bearer gateway_dev_key" },
    ]);
    await session.close();
    assert.deepEqual(gateway.requests, []);
  });

  test("terminates at the gateway's enclave if that is requested, and reports it", async (t) => {
    const { session } = await open(t, {}, { termination: "gateway" });
    assert.equal(session.termination, "gateway");
    assert.equal(session.role, "gateway");
    assert.equal((await session.chat({ messages }).final).verified, true);
  });

  test("answers requests one after the other, in the order in which they were made", async (t) => {
    const { gateway, session } = await open(t);
    const answers = ["one", "two", "three"].map((content) =>
      session.chat({ messages: [{ role: "user", content }] }),
    );
    assert.deepEqual(await Promise.all(answers.map(textOf)), ["Hello", "Hello", "Hello"]);
    const finals = await Promise.all(answers.map(({ final }) => final));
    assert.deepEqual(
      finals.map(({ verified, report }) => [verified, report?.rid]),
      [
        [true, 1],
        [true, 2],
        [true, 3],
      ],
    );
    const asked = gateway.prompts.map(({ messages: sent }) => JSON.stringify(sent));
    assert.deepEqual(
      asked.map((text) => /one|two|three/.exec(text)?.[0]),
      ["one", "two", "three"],
    );
  });

  test("sends a long request completely, in many frames", async (t) => {
    const { gateway, session } = await open(t, {}, { pad: 1024 });
    const content = "x".repeat(3_000_000);
    const final = await session.chat({ messages: [{ role: "user", content }] }).final;
    assert.equal(final.verified, true);
    assert.deepEqual(gateway.prompts[0]?.["messages"], [{ role: "user", content }]);
    assert.ok(gateway.frames > 90);
  });

  test("refuses an invalid request, and stays usable", async (t) => {
    const { gateway, session } = await open(t);
    // Like a caller in JavaScript, which does not check types.
    const wrong = [{}, { messages: "hello" }] as unknown as { messages: [] }[];
    for (const request of wrong) assert.throws(() => session.chat(request), TypeError);
    assert.throws(() => session.chat({ messages, max_tokens: 65 }), TypeError);
    assert.throws(() => session.chat({ messages, max_tokens: 0.5 }), TypeError);
    const content = "x".repeat(8 * 1024 * 1024);
    assert.throws(() => session.chat({ messages: [{ role: "user", content }] }), TypeError);
    assert.equal(gateway.frames, 0);
    assert.equal((await session.chat({ messages }).final).verified, true);
  });

  test("starts no request after it has expired", async (t) => {
    const { gateway, session } = await open(t);
    gateway.clock.jump(3_000_000);
    await rejectsWith(session.chat({ messages }).final, "TIMEOUT");
    assert.equal(gateway.frames, 0);
  });

  test("ends running requests when it is closed", async (t) => {
    const gateway = await startFakeGateway(t, { holdsAnswer: true });
    const session = await connect(gateway.options);
    const answer = session.chat({ messages });
    await until(() => gateway.frames >= 1);
    await session.close();
    await rejectsWith(answer.final, "CONNECTION_CLOSED");
    await rejectsWith(textOf(answer), "CONNECTION_CLOSED");
    await rejectsWith(session.chat({ messages }).final, "CONNECTION_CLOSED");
    await until(() => gateway.closes.length > 0);
    assert.deepEqual(gateway.closes, [1000]);
  });

  test("ends with TIMEOUT if no frame arrives for too long", async (t) => {
    const gateway = await startFakeGateway(t, { holdsAnswer: true });
    const session = await connect(gateway.options);
    const answer = session.chat({ messages });
    await until(() => gateway.frames >= 1);
    gateway.clock.advance(idleMs);
    await rejectsWith(answer.final, "TIMEOUT");
    await session.close();
    await until(() => gateway.closes.length > 0);
    assert.deepEqual(gateway.closes, [4408]);
  });

  test("causes no unhandled rejection if nobody awaits a failed request", async (t) => {
    const { gateway, session } = await open(t, { deltas: [], final: { error: { message: "no" } } });
    // Neither the deltas nor `final` are read. An unhandled rejection would fail this file.
    session.chat({ messages });
    await until(() => gateway.frames >= 1);
  });
});

describe("an answer", () => {
  test("is cancelled when its reader leaves the loop, and its final report still arrives", async (t) => {
    const { gateway, session } = await open(t, {
      final: { finish_reason: "cancel" },
      report: { finish: "cancel" },
      holdsAnswer: true,
    });
    const answer = session.chat({ messages });
    await until(() => gateway.frames >= 1);
    const iterator = answer[Symbol.asyncIterator]();
    assert.deepEqual(await iterator.return?.(), { done: true, value: undefined });
    const final = await answer.final;
    assert.equal(gateway.cancels, 1);
    assert.equal(final.finishReason, "cancel");
    assert.equal(final.verified, true);
    gateway.script = {};
    assert.equal(await textOf(session.chat({ messages })), "Hello");
  });

  test("throws the reason of its signal to its reader, and its final report still arrives", async (t) => {
    const { gateway, session } = await open(t, { holdsAnswer: true });
    const stopping = new AbortController();
    const answer = session.chat({ messages }, { signal: stopping.signal });
    await until(() => gateway.frames >= 1);
    stopping.abort(new Error("enough"));
    await assert.rejects(textOf(answer), { message: "enough" });
    assert.equal((await answer.final).verified, true);
    assert.equal(gateway.cancels, 1);
  });

  test("is not sent if it was cancelled before it started", async (t) => {
    const { gateway, session } = await open(t);
    const signal = AbortSignal.abort(new Error("enough"));
    const answer = session.chat({ messages }, { signal });
    await assert.rejects(textOf(answer), { message: "enough" });
    await assert.rejects(answer.final, { message: "enough" });
    assert.equal(gateway.frames, 0);
    assert.equal((await session.chat({ messages }).final).verified, true);
  });

  test("with an error in its last frame fails for its reader, and is charged", async (t) => {
    const final = { finish_reason: "error", error: { message: "the prompt is too long" } };
    const { session } = await open(t, { final, report: { finish: "error" } });
    const answer = session.chat({ messages });
    await rejectsWith(textOf(answer), "REQUEST_FAILED");
    const settled = await answer.final;
    assert.equal(settled.error, "the prompt is too long");
    assert.equal(settled.verified, true);
  });

  test("that nobody reads ends the session before it uses too much memory", async (t) => {
    const content = "x".repeat(60_000);
    const { session } = await open(t, {
      deltas: Array.from({ length: 300 }, () => ({ content })),
    });
    await rejectsWith(session.chat({ messages }).final, "LIMIT_EXCEEDED");
  });
});

describe("a handshake", () => {
  test("requests its own quote first and a cached one later, and lists the evidence that it knows", async (t) => {
    const gateway = await startFakeGateway(t);
    for (let n = 0; n < 3; n++) {
      const session = await connect(gateway.options);
      assert.equal((await session.chat({ messages }).final).verified, true);
      await session.close();
    }
    const asked = gateway.hellos.map(({ freshness, evidence, known }) => [
      freshness,
      evidence,
      known.length,
    ]);
    assert.deepEqual(asked, [
      ["quote", "full", 0],
      ["cached", "full", 0],
      ["cached", "known", 1],
    ]);
    assert.equal(gateway.upgrades.length, 3);
  });

  test("requests its own quote if the cached quote is for an unknown keyset", async (t) => {
    const gateway = await startFakeGateway(t);
    await (await connect(gateway.options)).close();
    gateway.script = { keyset: { notAfter: start / 1000 + 3300 } };
    const session = await connect(gateway.options);
    assert.deepEqual(
      gateway.hellos.map(({ freshness }) => freshness),
      ["quote", "cached", "quote"],
    );
    assert.equal((await session.chat({ messages }).final).verified, true);
    await session.close();
  });

  test("refuses a cached quote if it has requested its own", async (t) => {
    const gateway = await startFakeGateway(t, { ignoresNonce: true });
    await rejectsWith(connect(gateway.options), "EVIDENCE_REFUSED");
    // The refused keyset is still unknown.
    gateway.script = {};
    await (await connect(gateway.options)).close();
    assert.deepEqual(
      gateway.hellos.map(({ freshness }) => freshness),
      ["quote", "quote"],
    );
  });

  test("fetches evidence of which only the digest was sent", async (t) => {
    const gateway = await startFakeGateway(t, { sendsDigest: true });
    const session = await connect(gateway.options);
    assert.equal(session.assurance, "simulated");
    const form = /^GET \/v1\/confidential\/evidence\/[0-9a-f]{64} Bearer gateway_dev_key$/;
    assert.match(gateway.requests[0] ?? "", form);
    await session.close();
    // A ticket is valid only for the stream, and evidence is public.
    const { apiKey: _, ...options } = gateway.options;
    await (await connect({ ...options, ticket: "one" })).close();
    assert.match(gateway.requests[1] ?? "", /evidence\/[0-9a-f]{64} -$/);
    assert.equal(gateway.requests.length, 2);
  });

  test("with simulated evidence needs no list of images, but a given list is enforced", async (t) => {
    const gateway = await startFakeGateway(t);
    const { imageHashes: _, ...options } = gateway.options;
    const session = await connect({ ...options, treatSimulatedAsVerified: false });
    assert.equal(session.assurance, "simulated");
    assert.equal(session.evidence.verified, false);
    await session.close();
    await rejectsWith(connect({ ...options, imageHashes: [] }), "EVIDENCE_REFUSED");
  });

  test("sends a ticket as a subprotocol, which the server does not echo", async (t) => {
    const gateway = await startFakeGateway(t);
    const { apiKey: _, ...options } = gateway.options;
    let tickets = 0;
    const ticket = (): Promise<string> => Promise.resolve(`ticket ${++tickets}`);
    await (await connect({ ...options, ticket })).close();
    await (await connect({ ...options, ticket: "ticket 2" })).close();
    const hidden = (n: number): string =>
      `confidential.v1, confidential.auth.${Buffer.from(`ticket ${n}`).toString("base64url")}`;
    assert.deepEqual(gateway.upgrades, [
      { protocols: hidden(1), authorization: undefined },
      { protocols: hidden(2), authorization: undefined },
    ]);
  });

  test("ends if the server echoes the ticket", async (t) => {
    const hidden = `confidential.auth.${Buffer.from("one").toString("base64url")}`;
    const gateway = await startFakeGateway(t, { protocol: hidden });
    const { apiKey: _, ...options } = gateway.options;
    await rejectsWith(connect({ ...options, ticket: "one" }), "SUITE_UNSUPPORTED");
    assert.equal(gateway.hellos.length, 0);
  });

  test("rejects with the reason of its signal", async (t) => {
    const gateway = await startFakeGateway(t, { isSilent: true });
    const early = AbortSignal.abort(new Error("enough"));
    await assert.rejects(connect({ ...gateway.options, signal: early }), { message: "enough" });
    assert.equal(gateway.upgrades.length, 0);
    const stopping = new AbortController();
    const connecting = connect({ ...gateway.options, signal: stopping.signal });
    await until(() => gateway.hellos.length > 0);
    stopping.abort(new Error("too slow"));
    await assert.rejects(connecting, { message: "too slow" });
  });

  test("rejects with TIMEOUT if the server does not answer", async (t) => {
    const gateway = await startFakeGateway(t, { isSilent: true });
    const connecting = connect(gateway.options);
    await until(() => gateway.hellos.length > 0);
    gateway.clock.advance(2 * handshakeMs);
    const error = await connecting.catch((reason: unknown) => reason);
    assert.ok(error instanceof ConfidentialError);
    assert.equal(error.code, "TIMEOUT");
    assert.deepEqual(
      error.checks?.filter(({ result }) => result === "fail").map(({ name }) => name),
      ["answer"],
    );
  });

  const mistakes: readonly (readonly [string, object])[] = [
    ["no url", { url: "not a url" }],
    ["a url with another scheme", { url: "ftp://localhost" }],
    ["a url with a query", { url: "http://localhost/?key=1" }],
    ["a url with a password", { url: "http://a:b@localhost" }],
    ["no network", { network: "" }],
    ["no model", { model: undefined }],
    ["both key and ticket", { ticket: "x" }],
    ["neither key nor ticket", { apiKey: undefined }],
    ["an unknown pad", { pad: 64 }],
    ["maxOutputTokens of 0", { maxOutputTokens: 0 }],
    ["an invalid coefficient", { maxCoefficient: -1 }],
    ["an invalid termination", { termination: "relay" }],
    ["an invalid policy key", { policyKey: "AAAA" }],
  ];
  test("throws a TypeError and does not connect if an option is wrong", async (t) => {
    const gateway = await startFakeGateway(t);
    for (const [name, options] of mistakes)
      await assert.rejects(connect({ ...gateway.options, ...options }), TypeError, name);
    assert.equal(gateway.upgrades.length, 0);
  });
});

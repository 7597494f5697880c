/**
 * Questions during a call of a session: who is asked, which answers count, and what ends the wait. And the state
 * machine of a call's event stream: its opening, what keeps it alive, and what a slow client misses.
 */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { createSessionQuestions } from "../../../../plugins/tools/mcp/session-questions.ts";
import { createSeal } from "../../../../src/store/seal.ts";
import { manualClock } from "../../../../src/testing/clock.ts";
import type { TestGateway } from "../../../../plugins/contracts/testing.ts";
import {
  ask,
  startMcpGateway,
  stateless,
  type Answer,
  type Parsed,
} from "../../../e2e/mcp-gateway.ts";
import { seen } from "../../../e2e/mcp-tools.ts";
import { streamedCall } from "./streamed-call.ts";
import { EventStream } from "../../../../plugins/tools/mcp/event-stream.ts";
import type { Exchange, Sink } from "../../../../src/plugin.ts";

const clock = manualClock();
let gateway: TestGateway;
let other: string;
before(async () => {
  gateway = await startMcpGateway({ clock, account: { capabilities: ["ledger:write"] } });
  other = (await gateway.issue({ capabilities: ["ledger:write"] })).key;
});
after(() => gateway[Symbol.asyncDispose]());

test("nobody is asked after the client has left: a test of the state machine of questions", async () => {
  const parts = { clock, seal: createSeal("test"), replicas: undefined };
  const call = { keyId: "key_1", session: "s", request: "1" };
  const never = (): never => assert.fail("a question was sent");
  assert.equal(
    await createSessionQuestions(parts).ask(call, AbortSignal.abort(), never),
    undefined,
  );
});

const rpc = (method: string, params: object): object => ({ jsonrpc: "2.0", id: 1, method, params });
const write = rpc("tools/call", { name: "write", arguments: { to: "Alice" } });
const events = { accept: "application/json, text/event-stream" };

async function begin(capabilities: unknown, revision = "2025-11-25"): Promise<string> {
  const body = rpc("initialize", { protocolVersion: revision, capabilities });
  return String((await ask(gateway, { body })).headers["mcp-session-id"]);
}

for (const [what, capabilities, headers] of [
  ["declared nothing", {}, events],
  ["declared no object", { elicitation: true, sampling: 1, roots: [] }, events],
  ["shows no forms", { elicitation: { url: {} } }, events],
  ["answers other questions only", { sampling: {}, roots: {} }, events],
  ["takes no events", { elicitation: {} }, { accept: "application/json" }],
  ["declared no capabilities at all", null, events],
] as const) {
  test(`a client that ${what} gets the token as JSON`, async () => {
    const session = await begin(capabilities);
    const answer = await ask(gateway, {
      body: write,
      headers: { ...headers, "mcp-session-id": session },
    });
    assert.equal(answer.headers["content-type"], "application/json");
    assert.equal(answer.json.result._meta.errorCode, "GATEWAY_CONFIRMATION_REQUIRED");
  });
}

interface Conversation {
  readonly session: string;
  next(): Promise<Parsed>;
  answer(id: unknown, more: object, key?: string): Promise<Answer>;
  leave(): void;
}

/** Calls the write tool in a session whose client can show forms. */
async function converse(revision?: string): Promise<Conversation> {
  const session = await begin({ elicitation: {} }, revision);
  const { messages, leave } = streamedCall(gateway, session, "write", { to: "Alice" });
  return {
    session,
    next: async () => (await messages.next()).value,
    answer: (id, more, key = gateway.key) =>
      ask(gateway, { body: { jsonrpc: "2.0", id, ...more }, key }),
    leave,
  };
}

const accept = { result: { action: "accept", content: { confirm: true } } };

for (const revision of ["2025-11-25", "2025-06-18"]) {
  test(`${revision}: the user is asked on the stream of the call, and after acceptance it runs once`, async () => {
    const earlier = seen.writes.length;
    const call = await converse(revision);
    const question = await call.next();
    assert.equal(question.method, "elicitation/create");
    assert.match(question.params.message, /^Run write\?\n.*Alice/s);
    assert.deepEqual(question.params.requestedSchema.required, ["confirm"]);
    // Neither of these is the answer.
    assert.equal((await call.answer("made up", accept)).status, 202);
    assert.equal((await call.answer(question.id, accept, other)).status, 202);
    const answered = await call.answer(question.id, accept);
    assert.deepEqual([answered.status, answered.text], [202, ""]);
    const { id, result } = await call.next();
    assert.deepEqual([id, result._meta.usedCUMilli, result.isError], [1, 1000, undefined]);
    assert.equal(seen.writes.length, earlier + 1);
    assert.equal((await call.answer(question.id, accept)).status, 202);
    assert.equal(seen.writes.length, earlier + 1);
  });
}

test("2025-03-26: the answer may be an item of an array", async () => {
  const call = await converse("2025-03-26");
  const { id } = await call.next();
  const answer = { jsonrpc: "2.0", id, ...accept };
  const taken = await ask(gateway, { body: [rpc("ping", {}), answer] });
  assert.deepEqual(taken.json, [{ jsonrpc: "2.0", id: 1, result: {} }]);
  assert.equal((await call.next()).result._meta.toolName, "write");
});

const claims: readonly [what: string, answer: object, code: string][] = [
  ["declines", { result: { action: "decline" } }, "GATEWAY_PERMISSION_DENIED"],
  [
    "accepts without a yes",
    { result: { action: "accept", content: { confirm: "true" } } },
    "GATEWAY_PERMISSION_DENIED",
  ],
  ["puts the question away", { result: { action: "cancel" } }, "GATEWAY_CONFIRMATION_REQUIRED"],
  ["says nothing of use", { result: { action: "maybe" } }, "GATEWAY_CONFIRMATION_REQUIRED"],
  ["answers null", { result: null }, "GATEWAY_CONFIRMATION_REQUIRED"],
  ["answers an array", { result: [] }, "GATEWAY_CONFIRMATION_REQUIRED"],
  [
    "cannot ask after all",
    { error: { code: -32601, message: "Method not found" } },
    "GATEWAY_CONFIRMATION_REQUIRED",
  ],
];
for (const [what, answer, code] of claims) {
  test(`a client that ${what}: ${code}, and nothing runs`, async () => {
    const earlier = seen.writes.length;
    const call = await converse();
    const question = await call.next();
    assert.equal((await call.answer(question.id, answer)).status, 202);
    const { result } = await call.next();
    assert.deepEqual([result.isError, result._meta.errorCode], [true, code]);
    assert.equal(seen.writes.length, earlier);
  });
}

test("a question ends when its client leaves, and a later answer runs nothing", async () => {
  const earlier = seen.writes.length;
  const call = await converse();
  const question = await call.next();
  call.leave();
  // After a whole further exchange, the gateway has noticed that the other connection has closed.
  await ask(gateway, { body: rpc("ping", {}) });
  assert.equal((await call.answer(question.id, accept)).status, 202);
  await ask(gateway, { body: rpc("ping", {}) });
  assert.equal(seen.writes.length, earlier);
});

test("a question waits five minutes for its answer", async () => {
  for (const [waitedMs, ending] of [
    [5 * 60_000 - 1, "write"],
    [5 * 60_000, "GATEWAY_CONFIRMATION_REQUIRED"],
  ] as const) {
    const call = await converse();
    const question = await call.next();
    clock.advance(waitedMs);
    await call.answer(question.id, accept);
    const { _meta: meta } = (await call.next()).result;
    assert.equal(meta.errorCode ?? meta.toolName, ending);
  }
});

test("a cancelled write does not run when the user accepts afterwards; one of another call does", async () => {
  const cancel = async (session: string, requestId: unknown, key?: string): Promise<void> => {
    const method = "notifications/cancelled";
    const body = { jsonrpc: "2.0", method, params: { requestId } };
    const headers = { "mcp-session-id": session };
    await ask(gateway, { body, headers, ...(key !== undefined && { key }) });
  };
  for (const isOwn of [false, true]) {
    const earlier = seen.writes.length;
    const call = await converse();
    const question = await call.next();
    await cancel(call.session, 1, other);
    await cancel(await begin({ elicitation: {} }), 1);
    await cancel(call.session, 2);
    await cancel(call.session, "1");
    if (isOwn) await cancel(call.session, 1);
    await call.answer(question.id, accept);
    const { _meta: meta } = (await call.next()).result;
    assert.equal(meta.errorCode, isOwn ? "GATEWAY_CONFIRMATION_REQUIRED" : undefined);
    assert.equal(seen.writes.length - earlier, isOwn ? 0 : 1);
  }
});

test("the answer to a question from before a reload reaches the waiting call", async () => {
  const call = await converse();
  const question = await call.next();
  const pipeline = await readFile(join(gateway.folder, "pipeline.yaml"), "utf8");
  await gateway.write(pipeline.replace("{ mcp: {} }", "{ mcp: { title: Anew } }"));
  assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
  const discovered = await ask(gateway, stateless("server/discover"));
  assert.match(discovered.text, /"title":"Anew"/);
  await call.answer(question.id, accept);
  assert.equal((await call.next()).result._meta.toolName, "write");
});

interface Fake {
  readonly x: Exchange;
  readonly written: string[];
  readonly sink: Sink;
  opened: number;
  ended: number;
  /** The chunk that waited, with the end, for steps such as the one that charges. */
  last: string | undefined;
  room: boolean;
}

function fakeExchange(): Fake {
  const written: string[] = [];
  const sink: Sink = {
    onDrain: undefined,
    write(chunk) {
      written.push(Buffer.from(chunk).toString());
      return fake.room;
    },
    end(_, last) {
      fake.ended++;
      fake.last = last === undefined ? undefined : Buffer.from(last).toString();
      if (fake.last !== undefined) written.push(fake.last);
      return Promise.resolve();
    },
    fail() {},
  };
  const stream = (): Promise<Sink> => {
    fake.opened++;
    return Promise.resolve(sink);
  };
  // The stream uses nothing else of an exchange.
  const x = { stream } as unknown as Exchange;
  const fake: Fake = { x, written, sink, opened: 0, ended: 0, last: undefined, room: true };
  return fake;
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const progressOf = (text: string): unknown =>
  (JSON.parse(text.slice(text.indexOf("{"))) as { params?: { progress: unknown } }).params
    ?.progress;

test("a silent stream gets a comment every 15 s until its end", async () => {
  const fake = fakeExchange();
  const time = manualClock();
  const stream = new EventStream(fake.x, time, { token: "1" });
  stream.progress(1);
  await settled();
  time.advance(45_000);
  assert.deepEqual(fake.written.slice(1), [": \n\n", ": \n\n", ": \n\n"]);
  await stream.end("{}");
  const { length } = fake.written;
  time.advance(60_000);
  assert.equal(fake.written.length, length);
});

test("a client that does not read misses progress, but never the answer", async () => {
  const fake = fakeExchange();
  const stream = new EventStream(fake.x, manualClock(), { token: "1" });
  stream.progress(1);
  await settled();
  fake.room = false;
  for (const done of [2, 3, 4]) stream.progress(done);
  fake.sink.onDrain?.();
  stream.progress(5);
  stream.progress(6);
  await stream.end("{}");
  assert.deepEqual(fake.written.map(progressOf), [1, 2, 5, undefined]);
});

test("without a progress token no progress is sent; a question opens the stream, and a slow client does not miss it", async () => {
  const fake = fakeExchange();
  fake.room = false;
  const stream = new EventStream(fake.x, manualClock(), {});
  stream.progress(1);
  assert.equal(stream.opened, false);
  stream.request("a", "roots/list", {});
  assert.equal(stream.opened, true);
  await settled();
  stream.request("b", "elicitation/create", { message: "?" });
  await stream.end("{}");
  const data = fake.written.map((text): unknown => JSON.parse(text.slice(text.indexOf("{"))));
  assert.deepEqual(data, [
    { jsonrpc: "2.0", id: "a", method: "roots/list", params: {} },
    { jsonrpc: "2.0", id: "b", method: "elicitation/create", params: { message: "?" } },
    {},
  ]);
});

test("a client that does not read misses log messages, and the messages of a tool that logs without end are dropped", async () => {
  const fake = fakeExchange();
  const stream = new EventStream(fake.x, manualClock(), { level: "info" });
  stream.log("t", "debug", "too mild");
  assert.equal(stream.opened, false);
  for (let at = 0; at < 5000; at++) stream.log("t", "info", at);
  await settled();
  assert.equal(fake.written.length, 1000);
  fake.room = false;
  stream.log("t", "info", "seen");
  stream.log("t", "emergency", "missed");
  fake.sink.onDrain?.();
  stream.log("t", "info", "seen again");
  await stream.end("{}");
  stream.log("t", "info", "after the end");
  const data = fake.written.slice(1000).map((text) => /"data":"([a-z ]+)"/.exec(text)?.[1]);
  assert.deepEqual(data, ["seen", "seen again", undefined]);
});

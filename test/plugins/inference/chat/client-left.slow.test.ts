/**
 * Clients that leave or read slowly, and a gateway that drains, reloads, waits for credit or cannot write while
 * requests run.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { DatabaseSync } from "node:sqlite";
import { describe, it, test } from "node:test";
import { connect } from "node:net";
import type { Metering } from "sluice-gateway/services";
import { chunkOf, dataOf, eventOf, usageChunkOf } from "../networks/chat-events.ts";
import { failing, usageOf } from "../networks/worker-scripts.ts";
import type { Exchange } from "../networks/scripted-worker.ts";
import { chatBody, startChat, textOf, tokenMilli, type ChatGateway } from "./gateway.ts";
import { until } from "../../confidential/confidential-relay/wait.ts";

const inTime = { timeout: 60_000 };

const role = eventOf(chunkOf({ role: "assistant", content: "" }));
const token = eventOf(chunkOf({ content: "x" }));
const end =
  eventOf(chunkOf({}, { finishReason: "stop" })) +
  eventOf(usageChunkOf(usageOf(5, 2))) +
  eventOf("[DONE]");

interface Running {
  readonly answer: IncomingMessage;
  readonly worker: Exchange;
}

/** Starts a stream and waits until its role and first token have arrived at the client. */
async function running(chat: ChatGateway, members: object = {}): Promise<Running> {
  const held = chat.worker.hold();
  const opening = chat.open(members);
  const worker = await held;
  worker.begin();
  await worker.push(role + token);
  const answer = await opening;
  let seen = "";
  while (!seen.includes('"x"')) {
    // A stream without an encoding reads Buffers.
    const piece = answer.read() as Buffer | null;
    if (piece === null) await once(answer, "readable");
    else seen += piece.toString();
  }
  return { answer, worker };
}

describe("a client that leaves", inTime, () => {
  it("during a stream: the worker's request ends within two seconds, and the produced tokens are charged as estimated", async () => {
    await using chat = await startChat();
    const { answer, worker } = await running(chat);
    answer.destroy();
    await worker.left;
    const [charge, ...more] = await chat.charged(1);
    assert.deepEqual(more, []);
    // "Hi" makes one token, and so does one chunk with content.
    assert.equal(charge?.usedMilliCu, 2 * tokenMilli);
    assert.deepEqual([charge.inputTokens, charge.outputTokens, charge.estimated], [1, 1, true]);
    assert.equal(charge.outcome, "clientLeft");
    assert.equal(charge.pricing?.network, "classic");
    assert.match(await chat.logged(), /"status":200,"outcome":"clientLeft"/);
  });

  it("after the worker has reported its usage: the report is charged", async () => {
    await using chat = await startChat();
    const { answer, worker } = await running(chat);
    await worker.push(eventOf(chunkOf({ content: "y" }, { extra: { usage: usageOf(50, 20) } })));
    await once(answer, "readable");
    answer.destroy();
    await worker.left;
    const [charge] = await chat.charged(1);
    assert.equal(charge?.usedMilliCu, 70 * tokenMilli);
    assert.equal(charge.estimated, false);
  });

  /** Sends a request whose client leaves when the worker has it. */
  async function leave({ worker, gateway }: ChatGateway, stream: boolean): Promise<Exchange> {
    const held = worker.hold();
    const leaving = new AbortController();
    const asking = fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" },
      body: JSON.stringify(chatBody({ stream })),
      signal: leaving.signal,
    });
    const exchange = await held;
    leaving.abort();
    await assert.rejects(asking, { name: "AbortError" });
    return exchange;
  }

  it("before the worker refuses the request: nothing is charged, and no other worker is asked", async () => {
    await using chat = await startChat();
    await failing(500)(await leave(chat, true));
    assert.match(await chat.logged(), /"outcome":"clientLeft"/);
    assert.deepEqual([chat.charges(), chat.worker.received.length], [[], 1]);
  });

  for (const stream of [true, false]) {
    it(`before the first byte (stream: ${stream}): the worker's request ends, and the prompt is charged`, async () => {
      await using chat = await startChat();
      const worker = await leave(chat, stream);
      await worker.left;
      const [charge, ...more] = await chat.charged(1);
      assert.deepEqual(more, []);
      // "Hi" makes one token.
      assert.deepEqual([charge?.inputTokens, charge?.outputTokens], [1, 0]);
      assert.equal(charge?.usedMilliCu, tokenMilli);
      assert.deepEqual([charge?.estimated, charge?.outcome], [true, "clientLeft"]);
      assert.match(await chat.logged(), /"outcome":"clientLeft"/);
    });
  }
});

it("a client that does not read stops the worker and loses nothing", inTime, async () => {
  await using chat = await startChat();
  const { answer, worker } = await running(chat, { max_tokens: 5_000_000 });
  answer.pause();
  const long = eventOf(chunkOf({ content: "z".repeat(64 * 1024) }));
  let sent = 0;
  let waiting: Promise<unknown> = Promise.resolve();
  // Resolves when the kernel accepts no more bytes from the worker: the sockets hold some MiB, the gateway almost
  // nothing.
  for (let stuck = false; !stuck;) {
    waiting = worker.push(long);
    sent++;
    stuck = await Promise.race([waiting.then(() => false), turns(2_000).then(() => true)]);
    assert.ok(sent < 2_000, "128 MiB and no backpressure");
  }
  const reading = textOf(answer);
  await waiting;
  await worker.push(end);
  worker.end();
  const events = dataOf(await reading);
  assert.equal(events.filter((data) => data.includes("zzzz")).length, sent);
  assert.equal(events.at(-1), "[DONE]");
  const [charge] = chat.charges();
  assert.equal(charge?.usedMilliCu, 7 * tokenMilli);
});

async function turns(count: number): Promise<void> {
  for (let n = 0; n < count; n++) await new Promise(setImmediate);
}

it("a draining gateway completes a running stream and writes its charge", inTime, async () => {
  await using chat = await startChat();
  const { answer, worker } = await running(chat);
  const stopping = chat.gateway.gateway.stop();
  await worker.push(token + end);
  worker.end();
  const events = dataOf(await textOf(answer));
  assert.equal(events.at(-1), "[DONE]");
  await stopping;
  assert.deepEqual(
    chat.charges().map(({ usedMilliCu, outcome }) => [usedMilliCu, outcome]),
    [[7 * tokenMilli, "complete"]],
  );
});

/** Holds the journal's write lock, so that nothing can be written until it is disposed of. */
function lockJournal(chat: ChatGateway): Disposable {
  const db = new DatabaseSync(`${chat.gateway.folder}/data/charges.db`, { timeout: 5_000 });
  db.exec("BEGIN IMMEDIATE");
  return {
    [Symbol.dispose]() {
      db.exec("ROLLBACK");
      db.close();
    },
  };
}

describe("a charge that is not on disk yet", inTime, () => {
  it("delays only [DONE] and the usage", async () => {
    await using chat = await startChat();
    const { answer, worker } = await running(chat, { stream_options: { include_usage: true } });
    let seen = "";
    answer.on("data", (piece: Buffer) => (seen += String(piece)));
    {
      using _ = lockJournal(chat);
      await worker.push(token + end);
      worker.end();
      while (!seen.includes('"stop"')) await once(answer, "data");
      await turns(500);
      assert.ok(!seen.includes("[DONE]") && !seen.includes("usedCUMilli"));
      assert.deepEqual(chat.charges(), []);
    }
    await once(answer, "end");
    assert.ok(seen.endsWith("data: [DONE]\n\n"));
    assert.equal(chat.charges().length, 1);
  });
});

interface HeldCredit {
  readonly metering: Metering;
  /** Each function lets one reservation continue. */
  readonly held: (() => void)[];
  readonly taken: string[];
}

function holdCredit({ gateway }: ChatGateway): HeldCredit {
  const metering = gateway.gateway.use("metering") ?? assert.fail("no metering");
  const atOnce = metering.reserve.bind(metering);
  const held: (() => void)[] = [];
  const taken: string[] = [];
  metering.reserve = async (...args) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    held.push(resolve);
    await promise;
    const result = await atOnce(...args);
    taken.push(result.kind);
    return result;
  };
  return { metering, held, taken };
}

/** Sends a request. The result half-closes its connection, and resolves when the gateway has closed it, too. */
function begin({ gateway }: ChatGateway, stream: boolean): () => Promise<void> {
  const body = JSON.stringify(chatBody({ stream }));
  const { hostname, port } = new URL(gateway.url);
  const socket = connect(Number(port), hostname);
  socket.resume();
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: ${hostname}\r\nauthorization: Bearer ${gateway.key}\r\n` +
      `content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  );
  const closed = once(socket, "close");
  return async () => {
    socket.end();
    await closed;
  };
}

for (const stream of [true, false]) {
  test(`credit that arrives after the client has left is given back (stream: ${stream})`, async () => {
    await using chat = await startChat();
    const { metering, held, taken } = holdCredit(chat);
    const leave = begin(chat, stream);
    await until(() => held.length === 1);
    await leave();
    held[0]?.();
    await until(() => taken.length === 1);
    assert.deepEqual(taken, ["reserved"]);
    await until(
      async () => (await metering.workspaceUsage(chat.gateway.workspaceId)).openMilliCu === 0,
    );
    assert.equal(chat.worker.received.length, 0, "the worker is not asked");
    assert.deepEqual(chat.charges(), []);
  });
}

test("a request that waits for credit while the gateway drains is answered and charged", async () => {
  await using chat = await startChat();
  const { held } = holdCredit(chat);
  const asked = chat.ask();
  await until(() => held.length === 1);
  const stopped = chat.gateway.gateway.stop();
  held[0]?.();
  assert.equal((await asked).status, 200);
  await stopped;
  assert.deepEqual(
    chat.charges().map(({ usedMilliCu }) => usedMilliCu % tokenMilli),
    [0],
  );
});

/**
 * Requests of one session go to the same worker; and requests that wait for a silent worker count against the bound of
 * the memory that clients can hold.
 */
import assert from "node:assert/strict";
import { it, test } from "node:test";
import { startWorker } from "../networks/scripted-worker.ts";
import {
  model,
  startChat,
  type ChatGateway,
  type RequestOptions,
  chatBody,
  pipelineOf,
} from "./gateway.ts";
import { startTestGateway } from "../../../../plugins/contracts/testing.ts";

const inTime = { timeout: 60_000 };
const message = (content: string): object => ({ role: "user", content });
/** Enough that one worker would get all of them by chance only once in 8 million runs. */
const count = 24;

async function startWithTwo(
  use: (
    chat: ChatGateway,
    ask: (members: object, ask?: RequestOptions) => Promise<string>,
  ) => Promise<void>,
  network = "",
): Promise<void> {
  await using other = await startWorker();
  const options = `origins: ["${other.url}"], status: { url: "\${WORKER_URL}/status", every: 1s }`;
  await using chat = await startChat({ network: `${options}, ${network}` });
  const entry = { model, coefficient: 1000, state: "active" };
  chat.worker.documents.set("/status", {
    workers: [
      { ...entry, id: "a", url: chat.worker.url },
      { ...entry, id: "b", url: other.url },
    ],
  });
  // The list of models is asked for only after another poll, because requests are limited.
  for (let polls = -1, active = 0; active < 2;) {
    const { length } = chat.worker.reads;
    if (length === polls) await new Promise(setImmediate);
    else {
      polls = length;
      const { json } = await chat.send(undefined, { path: "/v1/models", method: "GET" });
      active = json?.data?.[0]?.active_workers ?? 0;
    }
  }
  await use(chat, async (members, ask = {}) => {
    const before = other.received.length;
    assert.equal((await chat.ask(members, ask)).status, 200);
    return other.received.length > before ? "b" : "a";
  });
}

it("a session is a header, prompt_cache_key or the first message", inTime, () =>
  startWithTwo(async (_, ask) => {
    const workersOf = async (
      options: (n: number) => [object, RequestOptions?],
    ): Promise<string[]> => {
      const found = new Set<string>();
      for (let n = 0; n < count; n++) found.add(await ask(...options(n)));
      return [...found];
    };
    const turn = (n: number): object => ({ messages: [message("Begin"), message(`Turn ${n}`)] });
    const other = (n: number): object => ({ messages: [message(`Other ${n}`)] });
    assert.equal((await workersOf((n) => [turn(n)])).length, 1);
    assert.equal((await workersOf((n) => [{ ...other(n), prompt_cache_key: "k" }])).length, 1);
    for (const name of ["session-id", "x-claude-code-session-id", "x-session-affinity"]) {
      const headers = { [name]: "agent-1" };
      assert.equal((await workersOf((n) => [other(n), { headers }])).length, 1, name);
    }
    const metadata = { user_id: JSON.stringify({ session_id: "agent-1" }) };
    const created = (n: number): [object, RequestOptions] => [
      { ...other(n), max_tokens: 9, metadata },
      { path: "/v1/messages" },
    ];
    assert.equal((await workersOf(created)).length, 1, "the metadata of the Messages API");
    assert.equal((await workersOf((n) => [other(n)])).length, 2);
  }),
);

it("sessions with the same name of different keys are different", inTime, () =>
  startWithTwo(async (chat, ask) => {
    const headers = { "session-id": "shared" };
    const found = new Set<string>();
    for (let n = 0; n < count; n++) {
      const { key } = await chat.gateway.issue({});
      found.add(await ask({}, { headers, key }));
    }
    assert.equal(found.size, 2);
  }),
);

it("affinity: none balances the requests of a session", inTime, () =>
  startWithTwo(async (_, ask) => {
    const found = new Set<string>();
    for (let n = 0; n < count; n++) found.add(await ask({}));
    assert.equal(found.size, 2);
  }, "affinity: none"),
);

const mebibyte = 1 << 20;

for (const stream of [false, true]) {
  const kind = stream ? "a stream" : "a whole answer";
  test(`requests for ${kind} count until the worker answers or the client leaves`, async () => {
    const answers: (() => void)[] = [];
    await using worker = await startWorker({
      otherwise: (exchange) => {
        answers.push(() => {
          exchange.begin(200);
          void exchange.push(`data: ${JSON.stringify(firstChunk)}\n\n`);
        });
      },
    });
    const bound = `server: { unfinishedBodyBytes: ${8 * mebibyte},`;
    await using gateway = await startTestGateway({
      pipeline: pipelineOf({}).replace("server: {", bound),
      env: { WORKER_URL: worker.url },
    });
    const other = await gateway.issue({});
    const leaving = new AbortController();
    const ask = (key: string, bytes = mebibyte): Promise<number | undefined> => {
      const messages = [{ role: "user", content: "x".repeat(bytes) }];
      return fetch(`${gateway.url}/v1/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: JSON.stringify(chatBody({ stream, messages })),
        signal: leaving.signal,
      }).then(
        ({ status }) => status,
        () => undefined,
      );
    };
    const held = async (): Promise<number> => {
      const text = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
      return Number(/^sluice_held_bytes\{kind="request"\} (\d+)/m.exec(text)?.[1]);
    };
    const waiting: Promise<number | undefined>[] = [];
    for (let sent = 1; sent <= 3; sent++) {
      waiting.push(ask(gateway.key));
      while (worker.received.length < sent) await new Promise(setImmediate);
      const bytes = await held();
      assert.ok(bytes > sent * mebibyte && bytes < (sent + 0.01) * mebibyte, `${bytes} bytes`);
    }
    assert.equal(await ask(gateway.key), 429);
    assert.equal((await fetch(`${gateway.url}/healthz`)).status, 200);
    waiting.push(ask(other.key));
    while (worker.received.length < 4) await new Promise(setImmediate);
    if (stream) {
      answers[0]?.();
      assert.equal(await waiting[0], 200);
      const bytes = await held();
      assert.ok(bytes < 3.1 * mebibyte, `${bytes} bytes while the answer streams`);
    }
    leaving.abort();
    await Promise.all(waiting);
    while ((await held()) > 0) await new Promise(setImmediate);
  });
}

const firstChunk = {
  choices: [{ index: 0, delta: { content: "Hi" }, finish_reason: null }],
};

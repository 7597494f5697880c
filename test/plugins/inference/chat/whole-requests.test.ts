/** Requests that wait for a silent worker count against the bound of the memory that clients can hold. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { startTestGateway } from "../../../../plugins/contracts/testing.ts";
import { chatBody, pipelineOf } from "./gateway.ts";
import { startWorker } from "../networks/scripted-worker.ts";

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
    for (let count = 1; count <= 3; count++) {
      waiting.push(ask(gateway.key));
      while (worker.received.length < count) await new Promise(setImmediate);
      const bytes = await held();
      assert.ok(bytes > count * mebibyte && bytes < (count + 0.01) * mebibyte, `${bytes} bytes`);
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

/** Runs everything that is shipped: the client, a gateway, `sluice worker` as a process, and a model server. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { startWorkerProcess } from "../../bench/soak/gateway.ts";
import { connect, createClientMemory } from "../../plugins/confidential/client/client.ts";
import { startTestGateway } from "../../plugins/contracts/testing.ts";
import { streamed } from "../plugins/inference/networks/worker-scripts.ts";
import { startWorker } from "../plugins/inference/networks/scripted-worker.ts";

const model = "Test/Model-1";
const messages = [{ role: "user", content: "Say hello" }];

const pipeline = `
version: 1
server: { port: "\${PORT}", drainSeconds: 5, drainDelaySeconds: 0 }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
rate: "0.25"
networks:
  alpha:
    kind: enclave
    url: "\${WORKER_URL}"
    price_per_token_nano: "12"
    evidence: { kind: simulated, roots: ["\${ROOT}"] }
routes:
  - path: /v1/confidential/stream
    websocket: true
    run: [request-id, authenticate, rate-limit, { authorize: { require: inference } }, meter]
    to: { confidential-stream: { origins: [] } }
`;

test("a chat is encrypted from the client to the worker, and every bill is verified", async () => {
  await using upstream = await startWorker({ otherwise: streamed() });
  await using worker = await startWorkerProcess(upstream.url, model);
  await using gateway = await startTestGateway({
    pipeline,
    env: { WORKER_URL: worker.url, ROOT: worker.simulatedRoot },
    account: { plan: "enterprise" },
  });
  const memory = createClientMemory();
  for (const wanted of ["a quote of its own", "the cached one", "the one that is known"]) {
    const session = await connect({
      url: gateway.url,
      apiKey: gateway.key,
      network: "alpha",
      model,
      allowSimulated: true,
      simulatedRoots: [worker.simulatedRoot],
      treatSimulatedAsVerified: true,
      memory,
    });
    const answer = session.chat({ messages, max_tokens: 20 });
    let text = "";
    for await (const { content } of answer) text += content ?? "";
    assert.equal(text, "Hello world", wanted);
    const final = await answer.final;
    assert.equal(final.verified, true, JSON.stringify(final.checks));
    assert.equal(final.recomputedCUMilli, final.usedCUMilli);
    assert.ok(final.usedCUMilli > 0);
    // The worker refuses inside the encrypted stream and charges nothing for it.
    const refused = await session.chat({ messages, n: 7 }).final;
    assert.equal(refused.error, "n must be 1");
    assert.deepEqual([refused.verified, refused.usedCUMilli], [true, 0]);
    await session.close();
  }
});

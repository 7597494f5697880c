/** `GET /v1/confidential/workers`: the number of workers of each model, and the bands of their price coefficients. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { startWorker } from "./networks/scripted-worker.ts";
import { assertRefused, startChat, type RequestOptions } from "./chat/gateway.ts";

const path = "/v1/confidential/workers";
const get = (at: string = path): RequestOptions => ({ method: "GET", path: at });
const withStatus = (url: string) => ({
  network: 'status: { url: "${STATUS_URL}" }',
  env: { STATUS_URL: `${url}/status` },
});

it("shows minimum, median and maximum over the active workers, or null without active workers", async () => {
  await using status = await startWorker();
  const worker = (id: string, model: string, coefficient: number, state = "active") => ({
    id,
    model,
    coefficient,
    state,
  });
  const workers = [
    worker("a", "M/Odd-1", 3000),
    worker("b", "M/Odd-1", 800, "busy"),
    worker("c", "M/Odd-1", 1000),
    worker("d", "M/Odd-1", 1, "draining"),
    worker("e", "M/Even-1", 1000),
    worker("f", "M/Even-1", 1001),
    worker("g", "M/None-1", 1000, "draining"),
  ];
  status.documents.set("/status", { price_per_token_nano: "12", workers });
  await using chat = await startChat(withStatus(status.url));
  const answer = await chat.send(undefined, get());
  assert.equal(answer.status, 200);
  assert.equal(answer.headers["content-type"], "application/json");
  const shown = (modelId: string, active: number, bands: readonly (number | null)[]) => ({
    network: "classic",
    model_id: modelId,
    active_workers: active,
    price_coefficient: { base: bands[0], standard: bands[1], priority: bands[2] },
  });
  assert.deepEqual(answer.json, {
    object: "list",
    data: [
      shown("M/Even-1", 2, [1000, 1001, 1001]),
      shown("M/None-1", 0, [null, null, null]),
      shown("M/Odd-1", 3, [800, 1000, 3000]),
    ],
  });
});

it("without a status document each listed model counts as one worker; a pinned path shows its network only", async () => {
  await using alpha = await startWorker({ models: ["Alpha/Only-1"] });
  await using chat = await startChat({
    networks: `  alpha: { kind: openai, url: "${alpha.url}" }`,
  });
  const listed = async (at: string): Promise<string[]> => {
    const { json } = await chat.send(undefined, get(at));
    return json.data.map(
      (one: { network: string; model_id: string }) => `${one.network} ${one.model_id}`,
    );
  };
  const [classic, other] = ["classic Test/Model-1", "alpha Alpha/Only-1"];
  assert.deepEqual(await listed(path), [classic, other]);
  assert.deepEqual(await listed(`/alpha${path}`), [other]);
  assertRefused(await chat.send(undefined, get(`/beta${path}`)), 404, "GATEWAY_NOT_FOUND");
});

it("while the status of a network is unknown, the surface returns 503 with Retry-After", async () => {
  await using status = await startWorker();
  await using chat = await startChat(withStatus(status.url));
  const answer = await chat.send(undefined, get());
  assertRefused(answer, 503, "GATEWAY_SERVICE_UNAVAILABLE");
  assert.equal(answer.headers["retry-after"], "5");
});

it("needs a key with platform:read", async () => {
  await using chat = await startChat();
  const { key } = await chat.gateway.issue({ capabilities: ["inference"] });
  assertRefused(await chat.send(undefined, { ...get(), key }), 403, "GATEWAY_PERMISSION_DENIED");
});

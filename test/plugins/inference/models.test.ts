/**
 * `GET /v1/models`: the models of the networks, in the shape that chat clients read. `GET /v1/confidential/workers`: the
 * number of workers of each model, and the bands of their price coefficients.
 */
import assert from "node:assert/strict";
import { it } from "node:test";
import OpenAI, { NotFoundError } from "openai";
import { startWorker } from "./networks/scripted-worker.ts";
import { assertChatError, assertRefused, startChat, type RequestOptions } from "./chat/gateway.ts";

const workersPath = "/v1/confidential/workers";
const get = (path: string): RequestOptions => ({ method: "GET", path });
const withStatus = (url: string) => ({
  network: 'status: { url: "${STATUS_URL}" }',
  env: { STATUS_URL: `${url}/status` },
});

it("lists every model with owner, network, workers and prices, and nothing else", async () => {
  await using chat = await startChat();
  const from = Math.floor(Date.now() / 1000) - 60;
  const answer = await chat.send(undefined, get("/v1/models"));
  assert.equal(answer.status, 200);
  assert.equal(answer.headers["content-type"], "application/json");
  assert.equal(answer.headers["x-used-cu-milli"], undefined, "it is not metered");
  const { object, data } = answer.json;
  assert.equal(object, "list");
  const [{ created, ...model }, ...more] = data;
  assert.deepEqual(more, []);
  assert.ok(Number.isInteger(created) && created > from && created <= Date.now() / 1000);
  assert.deepEqual(model, {
    id: "Test/Model-1",
    object: "model",
    owned_by: "classic",
    network: "classic",
    active_workers: 1,
    pricing: { prompt_cu_milli: 3, completion_cu_milli: 3, cached_cu_milli: 3 },
    evidence: "none",
  });
});

it("prices are those of the median worker, rounded half up, and workers have bands; a model whose workers drain stays listed", async () => {
  await using status = await startWorker();
  const worker = (id: string, coefficient: number, state = "active", model = "Test/Model-1") => ({
    id,
    model,
    coefficient,
    state,
  });
  const workers = [
    worker("a", 1000),
    worker("b", 1500, "busy"),
    worker("c", 9000),
    worker("d", 1, "draining"),
    worker("e", 1000, "draining", "Test/Gone-1"),
    worker("f", 1000, "active", "Test/Even-1"),
    worker("g", 1001, "active", "Test/Even-1"),
  ];
  status.documents.set("/status", { price_per_token_nano: "12", workers });
  await using chat = await startChat(withStatus(status.url));
  const { json } = await chat.send(undefined, get("/v1/models"));
  const listed = json.data.map((one: Record<string, unknown>) => [
    one["id"],
    one["active_workers"],
    one["pricing"],
  ]);
  const price = (milli: number) => ({
    prompt_cu_milli: milli,
    completion_cu_milli: milli,
    cached_cu_milli: milli,
  });
  // 12 × 1.0005 × 0.25 is rounded to 3, and 12 × 1.5 × 0.25 = 4.5 to 5.
  assert.deepEqual(listed, [
    ["Test/Even-1", 2, price(3)],
    ["Test/Gone-1", 0, price(3)],
    ["Test/Model-1", 3, price(5)],
  ]);
  const shown = (modelId: string, active: number, bands: readonly (number | null)[]) => ({
    network: "classic",
    model_id: modelId,
    active_workers: active,
    price_coefficient: { base: bands[0], standard: bands[1], priority: bands[2] },
  });
  assert.deepEqual((await chat.send(undefined, get(workersPath))).json, {
    object: "list",
    data: [
      shown("Test/Even-1", 2, [1000, 1001, 1001]),
      shown("Test/Gone-1", 0, [null, null, null]),
      shown("Test/Model-1", 3, [1000, 1500, 9000]),
    ],
  });
});

it("a model of two networks is listed once, and a pinned path lists its network only; an unknown network returns 404", async () => {
  await using alpha = await startWorker({ models: ["Alpha/Only-1", "Test/Model-1"] });
  await using chat = await startChat({
    networks: `  alpha: { kind: openai, url: "${alpha.url}" }`,
  });
  const listed = async (path: string): Promise<string[]> => {
    const { json } = await chat.send(undefined, get(path));
    return json.data.map(
      (one: { network: string; id?: string; model_id?: string }) =>
        `${one.network} ${one.id ?? one.model_id}`,
    );
  };
  assert.deepEqual(await listed("/v1/models"), ["classic Test/Model-1", "alpha Alpha/Only-1"]);
  assert.deepEqual(await listed("/classic/v1/models"), ["classic Test/Model-1"]);
  assert.deepEqual(await listed("/alpha/v1/models"), ["alpha Alpha/Only-1", "alpha Test/Model-1"]);
  assert.deepEqual(await listed(`/classic${workersPath}`), ["classic Test/Model-1"]);
  assert.deepEqual(await listed(workersPath), [
    "classic Test/Model-1",
    "alpha Alpha/Only-1",
    "alpha Test/Model-1",
  ]);
  for (const path of ["/v1/models", workersPath]) {
    const unknown = await chat.send(undefined, get(`/beta${path}`));
    assertRefused(unknown, 404, "GATEWAY_NOT_FOUND");
  }
});

it("while the status of a network is unknown, both surfaces return 503 with Retry-After", async () => {
  await using status = await startWorker();
  await using chat = await startChat(withStatus(status.url));
  for (const path of ["/v1/models", "/classic/v1/models"]) {
    assertChatError(await chat.send(undefined, get(path)), 503, "UPSTREAM_ERROR");
  }
  const workers = await chat.send(undefined, get(workersPath));
  assertRefused(workers, 503, "GATEWAY_SERVICE_UNAVAILABLE");
  assert.equal(workers.headers["retry-after"], "5");
});

it("a network without models has an empty list", async () => {
  await using status = await startWorker();
  status.documents.set("/status", { workers: [] });
  await using chat = await startChat(withStatus(status.url));
  const { status: code, text } = await chat.send(undefined, get("/v1/models"));
  assert.deepEqual([code, text], [200, '{"object":"list","data":[]}']);
});

it("shows one model by its id, whose slash may be encoded; an unlisted model returns 404", async () => {
  await using alpha = await startWorker({ models: ["Alpha/Only-1"] });
  await using chat = await startChat({
    networks: `  alpha: { kind: openai, url: "${alpha.url}" }`,
  });
  const client = (path: string): OpenAI =>
    new OpenAI({ apiKey: chat.gateway.key, baseURL: `${chat.gateway.url}${path}`, maxRetries: 0 });
  const found = await client("/v1").models.retrieve("Test/Model-1");
  const { json } = await chat.send(undefined, get("/v1/models"));
  assert.deepEqual({ ...found }, json.data[0]);
  const pinned = await client("/alpha/v1").models.retrieve("Alpha/Only-1");
  assert.equal(pinned.owned_by, "alpha");
  const raw = await chat.send(undefined, get("/v1/models/Test/Model-1"));
  assert.deepEqual(raw.json, json.data[0]);
  for (const path of [
    "/v1/models/Test/None-1",
    "/alpha/v1/models/Test/Model-1",
    "/v1/models/%zz",
  ]) {
    const answer = await chat.send(undefined, get(path));
    assert.equal(answer.status, 404);
    assert.equal(answer.json.error.code, "MODEL_NOT_FOUND");
  }
  const { json: unknown } = await chat.send(undefined, get("/alpha/v1/models/Test/None-1"));
  const message = 'the model "Test/None-1" does not exist; GET /alpha/v1/models lists the models';
  assert.equal(unknown.error.message, message);
  await assert.rejects(client("/v1").models.retrieve("None"), NotFoundError);
  assertRefused(await chat.send(undefined, get("/beta/v1/models/x")), 404, "GATEWAY_NOT_FOUND");
});

it("both need a key with platform:read", async () => {
  await using chat = await startChat();
  const bare = { ...get("/v1/models"), headers: { authorization: "" } };
  assertRefused(await chat.send(undefined, bare), 401, "GATEWAY_UNAUTHORIZED");
  const { key } = await chat.gateway.issue({ capabilities: ["inference"] });
  for (const path of ["/v1/models", workersPath]) {
    const answer = await chat.send(undefined, { ...get(path), key });
    assertRefused(answer, 403, "GATEWAY_PERMISSION_DENIED");
  }
});

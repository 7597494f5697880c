/** The pipeline of `sluice connect`, against a gateway that follows the protocol. */
import assert from "node:assert/strict";
import { request as httpRequest } from "node:http";
import { test } from "node:test";
import { createSigner } from "../../../../plugins/confidential/protocol/node-crypto.ts";
import { toBase64Url } from "../../../../plugins/confidential/protocol/encoding.ts";
import { until } from "../confidential-relay/wait.ts";
import { platform, pricing, startFakeGateway, type Script } from "../client/fake-gateway.ts";
import {
  localKey,
  models,
  policyFor,
  question,
  secret,
  simulated,
  startLocalGateway,
  type LocalGateway,
} from "./local-gateway.ts";

const inTime = { timeout: 30_000 };

interface PageState {
  readonly verifications: readonly {
    readonly gateway: string;
    readonly model: string;
    readonly assurance: string;
    readonly keyset?: string;
    readonly until?: number;
    readonly failedCheck?: string;
  }[];
  readonly requests: readonly Readonly<Record<string, unknown>>[];
}

async function pageOf(url: string): Promise<PageState> {
  return (await (await fetch(url)).json()) as PageState;
}

test("answers every API for models, and names what was verified", inTime, async (t) => {
  const local = await startLocalGateway(t);
  const { remote } = local;
  const streamed = await local.ask({ ...question, stream: true });
  const verified = streamed.headers.get("x-sluice-verified") ?? "";
  assert.match(verified, /^simulated; image=[0-9a-f]{64}; keyset=sha256:/);
  assert.match(verified, /passed=".*quote_signature.*"; skipped="policy offer.*"$/);
  const text = await streamed.text();
  assert.match(text, /"content":"Hel".*"content":"lo".*\[DONE\]/s);
  const whole = (await (await local.ask()).json()) as Record<string, unknown>;
  assert.match(JSON.stringify(whole["choices"]), /"content":"Hello"/);
  const { usedCUMilli, total_tokens: total } = whole["usage"] as Record<string, number>;
  assert.deepEqual({ usedCUMilli, total }, { usedCUMilli: 66, total: 14 });
  const item = { model: "demo", input: secret };
  assert.match(await (await local.ask(item, "/v1/responses")).text(), /"text":"Hello"/);
  const message = { ...question, max_tokens: 30 };
  assert.match(await (await local.ask(message, "/v1/messages")).text(), /"text":"Hello"/);
  const counted = await local.ask(question, "/v1/messages/count_tokens");
  assert.match(await counted.text(), /"input_tokens":\d/);
  const embedded = await local.ask({ model: "demo", input: secret }, "/v1/embeddings");
  assert.equal(embedded.status, 404);
  assert.match(await embedded.text(), /embeddings/);
  assert.equal(remote.prompts.length, 4);
  assert.equal(remote.hellos.length, 1, "the requests shared one session");
  const headers = { authorization: `Bearer ${localKey}` };
  const listed = await (await fetch(`${local.url}/v1/models`, { headers })).text();
  assert.match(listed, /"id":"demo"/);
  // The prices are those that the other gateway lists.
  assert.match(listed, /"prompt_cu_milli":5,"completion_cu_milli":7,"cached_cu_milli":1/);
  assert.doesNotMatch(listed, /plain/, "a model without evidence is not listed");
});

test("an answer in one piece has the text with which the model refuses", inTime, async (t) => {
  const deltas = [{ refusal: "I cannot" }, { refusal: " help." }];
  const local = await startLocalGateway(t, { script: { deltas } });
  const { choices } = (await (await local.ask()).json()) as Record<string, unknown>;
  assert.match(JSON.stringify(choices), /"content":null,"refusal":"I cannot help\."/);
});

test("calls of tools without ids stay apart in an answer in one piece", inTime, async (t) => {
  const piece = (name: string, text: string): object => ({
    tool_calls: [{ index: 0, function: { name, arguments: text } }],
  });
  // A brace in a text does not end the arguments.
  const pieces = [piece("read", '{"a":"{}'), piece("read", '{}"}'), piece("read", '{"a":2}')];
  const local = await startLocalGateway(t, {
    script: { deltas: [...pieces, piece("list", "{}")] },
  });
  const { choices } = (await (await local.ask()).json()) as { choices: [{ message: object }] };
  const message = choices[0].message as { tool_calls: { function: object }[] };
  assert.deepEqual(
    message.tool_calls.map((call) => call.function),
    [
      { name: "read", arguments: '{"a":"{}{}"}' },
      { name: "read", arguments: '{"a":2}' },
      { name: "list", arguments: "{}" },
    ],
  );
});

test("a request that is too long for the model is refused with its numbers", inTime, async (t) => {
  const context = { limit: 4096, requested: 4100, prompt: 4000 };
  const error = { code: "INVALID_REQUEST", message: "refused", context };
  const final = { finish_reason: "error", error };
  const script: Script = { deltas: [], final, report: { finish: "error" } };
  const local = await startLocalGateway(t, { script });
  const refused = await local.ask({ ...question, max_tokens: 100 }, "/v1/messages");
  assert.equal(refused.status, 400);
  assert.match(await refused.text(), /exceed context limit: 4000 \+ 100 > 4096, /);
});

test("a gateway that cannot be reached does not change what was verified", inTime, async (t) => {
  const signer = createSigner();
  const env = { SLUICE_POLICY_KEY: toBase64Url(signer.publicKey) };
  const local = await startLocalGateway(t, { env, script: { done: withRate("0.25", 66) } });
  local.remote.policy = await policyFor(platform.imageHash, signer, local.remote.clock.now());
  await (await local.ask()).text();
  const [before] = (await pageOf(local.url)).verifications;
  local.remote.script = { status: 503 };
  await cutAndWait(local);
  const unavailable = await local.ask();
  assert.equal(unavailable.status, 503);
  assert.match(await unavailable.text(), /UPSTREAM_ERROR/);
  local.remote.script = { status: 404 };
  const answer = await local.ask();
  assert.equal(answer.status, 502);
  assert.match(await answer.text(), /connection: .* status 404/);
  local.remote.script = { httpStatus: 503 };
  assert.match(await (await local.ask()).text(), /confidential-policy\.json cannot be fetched now/);
  assert.deepEqual((await pageOf(local.url)).verifications, [before]);
  local.remote.script = { done: withRate("0.5", 131) };
  assert.equal((await local.ask()).status, 200);
  assert.ok(local.lines.some((line) => /rate of a bill has changed/.test(line)));
});

test("a late answer is cancelled, and billed", inTime, async (t) => {
  const limits = "connectMs: 3000\n    idleMs: 5000\n    answerMs: 7000\n    passes:";
  const edit = (pipeline: string): string => pipeline.replace("passes:", limits);
  const local = await startLocalGateway(t, { edit, script: { holdsAnswer: true } });
  const { remote } = local;
  for (const [stream, ms] of [
    [true, 5000],
    [false, 7000],
  ] as const) {
    const { frames, cancels } = remote;
    const asked = local.ask({ ...question, stream });
    await until(() => remote.frames > frames);
    remote.clock.advance(ms - 1);
    assert.equal(remote.cancels, cancels);
    remote.clock.advance(1);
    const answer = await asked;
    assert.equal(answer.status, 503, await answer.text());
    await until(() => remote.cancels > cancels);
  }
  await until(async () => (await pageOf(local.url)).requests.length === 2);
  assert.equal((await pageOf(local.url)).requests[0]?.["billedMilliCu"], 66);
  await cutAndWait(local);
  remote.script = { holdsUpgrade: true };
  const { length } = remote.upgrades;
  const asked = local.ask();
  await until(() => remote.upgrades.length > length);
  remote.clock.advance(3000);
  const answer = await asked;
  assert.equal(answer.status, 502);
  assert.match(await answer.text(), /connection: the connection was not open after 3000 ms/);
});

test("of two gateways, the first answers, or the one in the path", inTime, async (t) => {
  const signer = createSigner();
  // Its enclave has keys of its own.
  const script = { keyset: { hs: signer.publicKey }, handshakeSigner: signer };
  const other = await startFakeGateway(t, script);
  other.models = models;
  const local = await startLocalGateway(t, {
    edit: (pipeline) =>
      pipeline
        .replace("lists:", () => `  other: ${JSON.stringify(networkAt(other.url))}\n\nlists:`)
        .replace(
          "routes:",
          'routes:\n  - { path: "/{network}/v1/chat/completions", methods: [POST], run: [{ use: local }], to: chat }',
        ),
  });
  assert.equal((await local.ask()).status, 200);
  assert.deepEqual([local.remote.prompts.length, other.prompts.length], [1, 0]);
  assert.equal((await local.ask(question, "/other/v1/chat/completions")).status, 200);
  assert.deepEqual([local.remote.prompts.length, other.prompts.length], [1, 1]);
  const { verifications } = await pageOf(local.url);
  assert.equal(verifications.length, 2);
  assert.ok(verifications.some(({ gateway }) => gateway === other.url));
  const listed = await fetch(`${local.url}/v1/models`, {
    headers: { authorization: `Bearer ${localKey}` },
  });
  assert.equal(((await listed.json()) as { data: unknown[] }).data.length, 1);
});

function networkAt(url: string): object {
  const headers = { Authorization: "Bearer gateway_dev_key" };
  return { kind: "sealed", url, headers, evidence: simulated };
}

function withRate(tokenUsdRate: string, usedCUMilli: number): NonNullable<Script["done"]> {
  return (frame) => ({ ...frame, usedCUMilli, pricing: { ...pricing, tokenUsdRate } });
}

test("a default model answers for names that are not listed", inTime, async (t) => {
  const local = await startLocalGateway(t, { env: { SLUICE_MODEL: "demo" } });
  const answer = await local.ask({ ...question, model: "claude-haiku" });
  assert.equal(((await answer.json()) as { model: string }).model, "demo");
  const id = "12345678901234567890";
  const call = { type: "tool_use", id: "call_1", name: "find", input: { id: "ID" } };
  const result = { type: "tool_result", tool_use_id: "call_1", content: "none" };
  const messages = [
    { role: "assistant", content: [call] },
    { role: "user", content: [result] },
  ];
  const body = JSON.stringify({ model: "claude-haiku", max_tokens: 30, messages });
  const headers = { authorization: `Bearer ${localKey}`, "content-type": "application/json" };
  const sent = { method: "POST", headers, body: body.replace('"ID"', id) };
  const read = await fetch(`${local.url}/v1/messages`, sent);
  assert.equal(read.status, 200, await read.text());
  assert.match(JSON.stringify(local.remote.prompts.at(-1)), new RegExp(id), "the digits are kept");
  const without = await startLocalGateway(t);
  assert.equal((await without.ask({ ...question, model: "claude-haiku" })).status, 404);
});

interface Refusal {
  readonly headers: Record<string, string>;
  readonly status: number;
}

test("needs the local key, a loopback name and no foreign origin", inTime, async (t) => {
  const local = await startLocalGateway(t);
  const refusals: readonly Refusal[] = [
    { headers: { authorization: "Bearer wrong" }, status: 401 },
    { headers: { authorization: "", "x-api-key": localKey }, status: 200 },
    { headers: { origin: "https://evil.example" }, status: 403 },
    { headers: { origin: "null" }, status: 403 },
    { headers: { origin: local.url }, status: 200 },
  ];
  for (const { headers, status } of refusals) {
    const answer = await local.ask(question, "/v1/chat/completions", headers);
    assert.equal(answer.status, status, JSON.stringify(headers));
    assert.equal(answer.headers.get("access-control-allow-origin"), null);
    await answer.text();
  }
  for (const [key, status] of [
    [localKey, 404],
    ["wrong", 401],
  ] as const) {
    const answer = await local.ask(question, "/v1/nothing", { authorization: `Bearer ${key}` });
    assert.equal(answer.status, status, await answer.text());
  }
  const status = await new Promise<number | undefined>((resolve, reject) => {
    const request = httpRequest(local.url, { headers: { host: "evil.example" } }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    request.on("error", reject).end();
  });
  assert.equal(status, 403);
});

test("the page shows verifications and bills, and neither content nor keys", inTime, async (t) => {
  const local = await startLocalGateway(t);
  await (await local.ask()).text();
  const { verifications, requests } = await pageOf(local.url);
  const [verification] = verifications;
  assert.equal(verification?.model, "demo");
  assert.equal(verification.assurance, "simulated");
  assert.deepEqual(requests, [
    {
      at: local.remote.clock.now(),
      gateway: verification.gateway,
      model: "demo",
      promptTokens: 9,
      completionTokens: 5,
      price: "12.5 nano × 1500/1000",
      rate: "0.25",
      billedMilliCu: 66,
    },
  ]);
  const json = await fetch(local.url);
  assert.equal(json.headers.get("x-content-type-options"), "nosniff");
  await json.text();
  const html = await fetch(local.url, { headers: { accept: "text/html" } });
  const text = (await html.text()) + JSON.stringify({ verifications, requests });
  for (const hidden of [secret, localKey, "gateway_dev_key"]) assert.ok(!text.includes(hidden));
});

/** Ends the connections. Resolves when both ends have noticed it. */
async function cutAndWait({ cut, remote, url }: LocalGateway): Promise<void> {
  cut();
  await until(() => remote.closes.length === remote.hellos.length);
  // The turns in which this process, which is both ends, gets the event.
  for (let turn = 0; turn < 3; turn++) await pageOf(url);
}

/** Moves the clock until the list of models is read, on which the evidence is checked if that is due. */
async function readModels({ clock, requests }: LocalGateway["remote"]): Promise<void> {
  const before = requests.length;
  clock.advance(13_000);
  await until(() => requests.length > before);
}

test("evidence is checked again before it expires, and while it is refused", inTime, async (t) => {
  const local = await startLocalGateway(t);
  const { remote } = local;
  await (await local.ask()).text();
  const state = async () => (await pageOf(local.url)).verifications[0];
  const sessions = remote.hellos.length;
  remote.script = { state: { isDebug: true } };
  // Five minutes before the end of the evidence.
  remote.clock.jump(((await state())?.until ?? 0) - remote.clock.now() - 310_000);
  await readModels(remote);
  await until(() => remote.hellos.length > sessions);
  await until(async () => (await state())?.failedCheck !== undefined);
  const refused = await local.ask();
  assert.equal(refused.status, 502);
  assert.match(await refused.text(), /: .*debug/i);
  const { frames } = remote;
  remote.script = { keyset: { notAfter: remote.clock.now() / 1000 + 3000 } };
  await readModels(remote);
  await until(async () => (await state())?.failedCheck === undefined);
  assert.equal(remote.frames, frames);
  assert.equal((await local.ask()).status, 200);
  remote.models = { data: [] };
  await readModels(remote);
  await until(async () => (await state()) === undefined);
});

test("an answer that outlives its keys gets the newer keys", inTime, async (t) => {
  const local = await startLocalGateway(t);
  const { remote } = local;
  await (await local.ask()).text();
  const end = (await pageOf(local.url)).verifications[0]?.until ?? 0;
  // The session is in use until 10 s before its end. From half an hour before, new sessions get newer keys.
  while (remote.clock.now() < end - 15_000) {
    if (remote.clock.now() > end - 1_800_000) {
      remote.script = { keyset: { notAfter: end / 1000 + 1800 } };
    }
    remote.clock.advance(65_000);
    assert.equal((await local.ask()).status, 200);
  }
  remote.script = {
    ...remote.script,
    done: (frame) => {
      remote.clock.jump(30_000);
      return frame;
    },
  };
  const streamed = await (await local.ask({ ...question, stream: true })).text();
  assert.match(streamed, /\[DONE\]/);
  assert.ok(remote.clock.now() > end, "the answer has ended after the old keys");
  assert.ok(((await pageOf(local.url)).verifications[0]?.until ?? 0) > end);
});

test("a client that leaves cancels the answer, and the session continues", inTime, async (t) => {
  const local = await startLocalGateway(t, { script: { holdsAnswer: true } });
  const leaving = new AbortController();
  const headers = { authorization: `Bearer ${localKey}`, "content-type": "application/json" };
  const asked = fetch(`${local.url}/v1/chat/completions`, {
    method: "POST",
    headers,
    body: JSON.stringify({ ...question, stream: true }),
    signal: leaving.signal,
  });
  await until(() => local.remote.frames > 0);
  leaving.abort();
  await assert.rejects(asked);
  await until(() => local.remote.cancels > 0);
  local.remote.script = {};
  assert.equal((await local.ask()).status, 200);
});

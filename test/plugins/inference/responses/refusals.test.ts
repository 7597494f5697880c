/** Refusals of steps and of the core have the shape of OpenAI's errors, and their code is in `X-Sluice-Error`. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { WebSocket } from "ws";
import { manualClock } from "../../../../src/testing/clock.ts";
import { raw } from "../networks/worker-scripts.ts";
import type { Answer } from "../chat/gateway.ts";
import { startResponses, type ResponsesGateway } from "./gateway.ts";

const inTime = { timeout: 30_000 };

let gateway: ResponsesGateway;
before(async () => {
  gateway = await startResponses();
});
after(() => gateway[Symbol.asyncDispose]());

function assertError(answer: Answer, status: number, code: string, error: object): void {
  assert.equal(answer.status, status, answer.text);
  const { message, ...rest } = answer.json.error;
  assert.deepEqual(Object.keys(answer.json), ["error"]);
  assert.equal(typeof message, "string");
  assert.deepEqual(rest, { param: "", ...error });
  assert.equal(answer.headers["x-sluice-error"], code);
  assert.equal(answer.headers["content-type"], "application/json");
}

describe("a refusal", inTime, () => {
  it("without a key, with a wrong key and without the capability", async () => {
    const unauthorized = { type: "invalid_request_error", code: "invalid_api_key" };
    for (const authorization of ["", `Bearer gateway_dev_${"0".repeat(32)}`]) {
      const answer = await gateway.create({}, { headers: { authorization } });
      assertError(answer, 401, "GATEWAY_UNAUTHORIZED", unauthorized);
      assert.ok(answer.headers["www-authenticate"]);
    }
    const { key } = await gateway.gateway.issue({ capabilities: ["docs:read"] });
    assertError(await gateway.create({}, { key }), 403, "GATEWAY_PERMISSION_DENIED", {
      type: "permission_error",
      code: "permission_denied",
    });
  });

  it("of the core: no JSON, another type, too large, too deep, an unknown network", async () => {
    const invalid = { type: "invalid_request_error", code: "invalid_request" };
    const path = "/v1/responses";
    assertError(await gateway.send("{", { path }), 400, "INVALID_REQUEST", invalid);
    const deep = "[".repeat(200) + "]".repeat(200);
    assertError(await gateway.send(deep, { path }), 400, "GATEWAY_INVALID_PARAMS", invalid);
    assertError(await gateway.send("[1]", { path }), 400, "INVALID_REQUEST", invalid);
    const xml = { path, headers: { "content-type": "text/xml" } };
    assertError(await gateway.send("<a/>", xml), 415, "GATEWAY_INVALID_PARAMS", invalid);
    const large = JSON.stringify({ input: "x".repeat(11 * 1024 * 1024) });
    assertError(await gateway.send(large, { path }), 413, "GATEWAY_INVALID_PARAMS", invalid);
    const elsewhere = await gateway.create({}, { path: "/none/v1/responses" });
    assertError(elsewhere, 404, "GATEWAY_NOT_FOUND", invalid);
    assert.equal((await gateway.create({}, { path: "/classic/v1/responses" })).status, 200);
  });

  it("over the rate has a wait", async () => {
    const clock = manualClock();
    await using limited = await startResponses({ account: { rpsLimit: 1 }, clock });
    for (let within = 2; within > 0; within--) assert.equal((await limited.create()).status, 200);
    const answer = await limited.create();
    assertError(answer, 429, "GATEWAY_RATE_LIMITED", {
      type: "rate_limit_error",
      code: "rate_limit_exceeded",
    });
    assert.ok(Number(answer.headers["retry-after"]) >= 1);
  });

  it("of a request that no credit would suffice for has no such time", async () => {
    const { key } = await gateway.gateway.issue({ cuLimit24hMilli: 1 });
    const answer = await gateway.create({}, { key });
    assertError(answer, 429, "GATEWAY_CU_LIMIT_EXCEEDED", {
      type: "usage_limit_reached",
      code: "insufficient_quota",
    });
    assert.equal(answer.headers["x-should-retry"], "false");
    assert.ok(answer.headers["retry-after"]);
  });

  it("of a prompt that is too long has a code that clients know", async () => {
    const problem = { message: "maximum context length is 10 tokens. you requested 20" };
    const json = { "content-type": "application/json" };
    gateway.worker.script(raw(400, json, [JSON.stringify({ error: problem })]));
    const { status, json: body } = await gateway.create();
    const { code, param } = body.error;
    assert.deepEqual([status, code, param], [400, "context_length_exceeded", "input"]);
  });

  it("names an unknown model", async () => {
    const answer = await gateway.create({ model: "None/1" });
    assertError(answer, 404, "MODEL_NOT_FOUND", {
      type: "invalid_request_error",
      code: "model_not_found",
    });
    assert.match(answer.json.error.message, /None\/1/);
  });
});

describe("a WebSocket", inTime, () => {
  it("is answered with 426, so that clients use HTTP at once", async () => {
    for (const path of ["/v1/responses", "/classic/v1/responses"]) {
      assert.deepEqual(await upgrade(path), [426, "POST"]);
    }
    const { status } = await gateway.send(undefined, { path: "/v1/responses", method: "GET" });
    assert.equal(status, 405);
  });
});

async function upgrade(path: string): Promise<unknown[]> {
  const { url, key } = gateway.gateway;
  const socket = new WebSocket(url.replace("http", "ws") + path, {
    headers: { authorization: `Bearer ${key}` },
  });
  return new Promise((resolve, reject) => {
    socket.on("open", () => reject(new Error("the socket must not open")));
    socket.on("error", reject);
    socket.on("unexpected-response", (_, answer) => {
      answer.resume();
      resolve([answer.statusCode, answer.headers.allow]);
    });
  });
}

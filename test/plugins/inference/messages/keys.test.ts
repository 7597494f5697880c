/** The key of a request to the Messages API: two headers, refusals in its shape, and nothing in logs. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { environment, openReceiver } from "../../edge/trace/otlp-receiver.ts";
import { model, type Answer, type RequestOptions } from "../chat/gateway.ts";
import { messagesBody, startMessages, type MessagesGateway } from "./gateway.ts";

const unknownKey = `gateway_dev_${"0".repeat(32)}`;
const paths = [
  "/v1/messages",
  "/classic/v1/messages",
  "/v1/messages/count_tokens",
  "/classic/v1/messages/count_tokens",
];

let gateway: MessagesGateway;
before(async () => {
  gateway = await startMessages();
});
after(() => gateway[Symbol.asyncDispose]());

function assertError(answer: Answer, status: number, type: string, code: string): void {
  assert.equal(answer.status, status, answer.text);
  const { error, ...rest } = answer.json;
  assert.deepEqual(rest, { type: "error", request_id: answer.headers["request-id"] });
  assert.equal(error.type, type);
  assert.equal(answer.headers["x-sluice-error"], code);
  assert.equal(answer.headers["content-type"], "application/json");
}

describe("the key", { timeout: 60_000 }, () => {
  it("may be in either header, or in both", async () => {
    const { key } = gateway.gateway;
    for (const path of paths) {
      const inBoth = { authorization: `Bearer ${key}`, "x-api-key": key };
      assert.equal((await gateway.create({}, { path })).status, 200);
      assert.equal((await gateway.create({}, { path, headers: inBoth })).status, 200);
    }
    for (const path of paths) {
      const answer = await sendWithout(path, { "x-api-key": key });
      assert.equal(answer.status, 200);
    }
  });

  it("must not differ between the headers", async () => {
    for (const path of paths) {
      const answer = await gateway.create({}, { path, headers: { "x-api-key": unknownKey } });
      assertError(answer, 400, "invalid_request_error", "GATEWAY_INVALID_PARAMS");
      assert.equal(answer.json.error.message, "two headers contain different API keys");
    }
  });

  it("is required, and must be known", async () => {
    // Few, because requests without a key are limited.
    assertErrorOf(await sendWithout("/v1/messages", { "x-api-key": unknownKey }));
    assertErrorOf(await sendWithout("/v1/messages/count_tokens", { "x-api-key": "x" }));
    assertErrorOf(await sendWithout("/classic/v1/messages", {}));
    const forbidden = (await gateway.gateway.issue({ capabilities: ["docs:read"] })).key;
    for (const path of paths) {
      const answer = await gateway.create({}, { path, key: forbidden });
      assertError(answer, 403, "permission_error", "GATEWAY_PERMISSION_DENIED");
    }
  });

  it("is not read from x-api-key on other routes", async () => {
    const answer = await sendWithout("/v1/chat/completions", { "x-api-key": gateway.gateway.key });
    assert.equal(answer.status, 401);
  });

  it("and anything else in x-api-key reaches no worker and is in no log, explanation and trace", async (t) => {
    await using receiver = await openReceiver();
    environment(t, { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url });
    const secrets = [unknownKey.slice("gateway_dev_".length), "hidden-value"];
    const assertHidden = (text: string): void =>
      assert.deepEqual(
        secrets.filter((secret) => text.includes(secret)),
        [],
      );
    {
      await using other = await startMessages({ isTraced: true });
      const { url, key, adminUrl } = other.gateway;
      secrets.push(key.slice("gateway_dev_".length));
      for (const [id, sent, status] of [
        ["known", key, 200],
        ["unknown", unknownKey, 401],
        ["odd", "hidden-value", 401],
      ] as const) {
        const answer = await fetch(`${url}/v1/messages`, {
          method: "POST",
          headers: { "x-api-key": sent, "x-request-id": id, "content-type": "application/json" },
          body: JSON.stringify(messagesBody()),
        });
        await answer.text();
        assert.equal(answer.status, status);
        const explained = await (await fetch(`${adminUrl}/explain?id=${id}`)).text();
        assert.match(explained, /authenticate/);
        assertHidden(explained);
      }
      assert.doesNotMatch(JSON.stringify(other.worker.received), /x-api-key|gateway_dev/);
      assertHidden(await other.logged());
    }
    const spans = JSON.stringify(receiver.spans, (_, value: unknown) =>
      typeof value === "bigint" ? String(value) : value,
    );
    assert.match(spans, /v1\/messages/);
    assertHidden(spans);
  });

  function assertErrorOf(answer: Awaited<ReturnType<typeof sendWithout>>): void {
    const { status, body, headers } = answer;
    assert.equal(status, 401);
    assert.equal(body.type, "error");
    assert.equal(body.error.type, "authentication_error");
    assert.equal(headers.get("x-sluice-error"), "GATEWAY_UNAUTHORIZED");
    assert.equal(headers.get("request-id"), body.request_id);
  }
});

describe("refusals", { timeout: 60_000 }, () => {
  it("of unknown networks and models, media types and rates have the shape of the API", async () => {
    for (const path of ["/none/v1/messages", "/none/v1/messages/count_tokens"]) {
      assertError(await gateway.create({}, { path }), 404, "not_found_error", "GATEWAY_NOT_FOUND");
    }
    for (const path of paths) {
      const answer = await gateway.create({ model: "No/Such-1" }, { path });
      assertError(answer, 404, "not_found_error", "MODEL_NOT_FOUND");
      assert.match(answer.json.error.message, /^the model "No\/Such-1" does not exist/);
      const plain = { path, headers: { "content-type": "text/plain" } };
      assertError(
        await gateway.create({}, plain),
        415,
        "invalid_request_error",
        "GATEWAY_INVALID_PARAMS",
      );
    }
    const large = { system: "x".repeat(11 << 20) };
    assertError(await gateway.create(large), 413, "request_too_large", "GATEWAY_INVALID_PARAMS");
    const { key } = await gateway.gateway.issue({ rpsLimit: 1 });
    for (;;) {
      const answer = await gateway.create({}, { key });
      if (answer.status === 200) continue;
      assertError(answer, 429, "rate_limit_error", "GATEWAY_RATE_LIMITED");
      assert.equal(answer.headers["retry-after"], "1");
      assert.equal(answer.headers["x-should-retry"], undefined);
      break;
    }
  });

  it("of models, and the models, have the shape of the API that the client speaks", async () => {
    const headers = { "anthropic-version": "2023-06-01" };
    const get = (path: string, more: RequestOptions = {}): Promise<Answer> =>
      gateway.send(undefined, { path, method: "GET", headers, ...more });
    const { json } = await get("/v1/models");
    const { data, ...page } = json;
    const { created_at: created } = data[0];
    assert.equal(new Date(created).toISOString(), created);
    const shown = { type: "model", id: model, display_name: model, created_at: created };
    assert.deepEqual(data, [shown]);
    assert.deepEqual(page, { has_more: false, first_id: model, last_id: model });
    assert.deepEqual((await get(`/v1/models/${model}`)).json, shown);
    const { key } = await gateway.gateway.issue({ capabilities: [] });
    const forbidden = await get("/v1/models", { key });
    assertError(forbidden, 403, "permission_error", "GATEWAY_PERMISSION_DENIED");
    assertError(await get("/none/v1/models"), 404, "not_found_error", "GATEWAY_NOT_FOUND");
    const missing = await get("/classic/v1/models/No/Such-1");
    assertError(missing, 404, "not_found_error", "MODEL_NOT_FOUND");
  });
});

describe("count_tokens", { timeout: 60_000 }, () => {
  it("is named as an estimate, counts tools and images, and asks no worker", async () => {
    const earlier = gateway.worker.received.length;
    const image = { type: "image", source: { type: "url", url: "https://a.example/b.png" } };
    const count = async (members: object): Promise<number> => {
      const answer = await gateway.create(members, { path: "/v1/messages/count_tokens" });
      assert.equal(answer.status, 200, answer.text);
      assert.equal(answer.headers["x-sluice-estimate"], "input_tokens");
      assert.equal(answer.headers["x-used-cu-milli"], undefined);
      return answer.json.input_tokens;
    };
    // 2 bytes, a third of them rounded up, and 8 for the message.
    assert.equal(await count({ max_tokens: undefined }), 9);
    assert.equal(await count({ system: "x".repeat(31) }), 11 + 2 * 8);
    assert.equal(await count({ messages: [{ role: "user", content: [image] }] }), 4096 + 8);
    const tools = [{ name: "edit", description: "x".repeat(300), input_schema: {} }];
    assert.ok((await count({ tools })) > 9 + 100);
    assert.equal(gateway.worker.received.length, earlier);
  });

  it("needs the capability of the catalogue, and not that of inference", async () => {
    const path = "/v1/messages/count_tokens";
    const { key } = await gateway.gateway.issue({ capabilities: ["platform:read"] });
    assert.equal((await gateway.create({}, { path, key })).status, 200);
    assertError(
      await gateway.create({}, { key }),
      403,
      "permission_error",
      "GATEWAY_PERMISSION_DENIED",
    );
  });
});

async function sendWithout(path: string, headers: Readonly<Record<string, string>>) {
  const answer = await fetch(gateway.gateway.url + path, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify({
      model: "Test/Model-1",
      max_tokens: 9,
      messages: [{ role: "user", content: "Hi" }],
    }),
  });
  // oxlint-disable-next-line typescript/no-explicit-any -- as `Answer.json`
  const body: any = await answer.json();
  return { status: answer.status, headers: answer.headers, body };
}

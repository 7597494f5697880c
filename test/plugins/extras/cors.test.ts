import assert from "node:assert/strict";
import { test } from "node:test";
import { startTestGateway, testStep } from "../../../plugins/contracts/testing.ts";
import plugin from "../../../plugins/extras/cors/index.ts";
import { documentedPipeline } from "./documented.ts";

const app = "https://app.test";
const options = { origins: [app, "http://127.0.0.1:5173"] };
const asked = { "access-control-request-method": "POST" };

function corsOf(headers: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const names = Object.keys(headers).filter((name) => /^(access-control-.*|vary)$/.test(name));
  return Object.fromEntries(names.map((name) => [name, headers[name]]));
}

test("a preflight request of an allowed origin is answered, and does not reach the surface", async () => {
  const surface = () => assert.fail("the surface was called");
  const more = { headers: ["x-a", "x-b"], methods: ["GET", "PUT"], maxAgeSeconds: 60 };
  await using tested = await testStep(plugin, { options: { ...options, ...more }, surface });
  const headers = { ...asked, origin: app };
  const answer = await tested.send({ method: "OPTIONS", headers });
  assert.equal(answer.status, 204);
  assert.deepEqual(corsOf(answer.headers), {
    "access-control-allow-origin": app,
    "access-control-allow-methods": "GET, PUT",
    "access-control-allow-headers": "x-a, x-b",
    "access-control-max-age": "60",
    vary: "Origin",
  });
});

for (const origin of ["https://evil.test", "null", `${app}.evil.test`, app.toUpperCase()]) {
  test(`the origin ${origin} is allowed nothing, and its requests pass`, async () => {
    const headers = [
      ["access-control-allow-origin", "*"],
      ["access-control-allow-credentials", "true"],
    ].flat();
    const surface = () => ({ status: 200, headers, body: "ok" });
    const more = { credentials: true, exposedHeaders: ["x-a"] };
    await using tested = await testStep(plugin, { options: { ...options, ...more }, surface });
    const preflight = await tested.send({ method: "OPTIONS", headers: { ...asked, origin } });
    assert.deepEqual([preflight.status, corsOf(preflight.headers)], [204, { vary: "Origin" }]);
    const answer = await tested.send({ method: "POST", headers: { origin } });
    assert.deepEqual([answer.status, answer.body], [200, "ok"]);
    assert.deepEqual(corsOf(answer.headers), { vary: "Origin" });
  });
}

test("an answer for an allowed origin, also a refusal, can be read by its pages", async () => {
  const surface = () => ({ status: 403, headers: ["vary", "Accept"], body: "no" });
  const more = { credentials: true, exposedHeaders: ["x-request-id", "x-a"] };
  await using tested = await testStep(plugin, { options: { ...options, ...more }, surface });
  const answer = await tested.send({ method: "POST", headers: { origin: app } });
  assert.deepEqual([answer.status, answer.body], [403, "no"]);
  const { vary, ...fields } = corsOf(answer.headers);
  assert.deepEqual(fields, {
    "access-control-allow-origin": app,
    "access-control-allow-credentials": "true",
    "access-control-expose-headers": "x-request-id, x-a",
  });
  assert.deepEqual(String(vary).split(/, ?/).toSorted(), ["Accept", "Origin"]);
});

test("requests that are not preflight requests pass, and caches keep their answers apart", async () => {
  await using tested = await testStep(plugin, { options });
  for (const request of [
    { method: "GET" },
    { method: "OPTIONS" },
    { method: "OPTIONS", headers: asked },
    { method: "OPTIONS", headers: { origin: app } },
    { method: "POST", headers: { ...asked, origin: app } },
  ]) {
    const { status, body, headers } = await tested.send(request);
    assert.deepEqual([status, body, headers["vary"]], [200, "ok", "Origin"]);
  }
});

test('the origin "*" allows every page, with one answer for all of them', async () => {
  await using tested = await testStep(plugin, { options: { origins: ["*"] } });
  const answer = await tested.send({ headers: { origin: "https://any.test" } });
  assert.deepEqual(corsOf(answer.headers), { "access-control-allow-origin": "*" });
});

const wrongOptions = [
  { origins: ["*"], credentials: true },
  { origins: [] },
  { origins: ["app.test"] },
  { origins: [`${app}/`] },
  { origins: ["https://App.test"] },
  { origins: [app], headers: ["x-a\r\nset-cookie"] },
];

test("options that allow too much, or nothing, are refused", async () => {
  for (const options_ of wrongOptions) {
    await assert.rejects(testStep(plugin, { options: options_ }), /credentials|origins|headers/);
  }
});

test("in a gateway, pages call a route that lists only POST, and read its refusals", async () => {
  await using gateway = await startTestGateway({ pipeline: documentedPipeline("cors") });
  const origin = "https://app.example.com";
  const send = (method: string, more: Record<string, string>, path = "/rpc"): Promise<Response> =>
    fetch(gateway.url + path, { method, headers: { origin, ...more } });
  for (const path of ["/rpc", "/unknown"]) {
    const preflight = await send("OPTIONS", asked, path);
    assert.equal(preflight.status, 204);
    assert.equal(preflight.headers.get("access-control-allow-origin"), origin);
    assert.match(preflight.headers.get("access-control-allow-headers") ?? "", /authorization/);
    assert.notEqual(preflight.headers.get("x-request-id"), null);
  }
  const authorization = `Bearer ${gateway.key}`;
  for (const [answer, status] of [
    [await send("POST", {}), 401],
    [await send("POST", { authorization }), 415],
    [await send("PUT", { authorization }), 405],
    [await send("OPTIONS", {}), 405],
    [await send("GET", {}, "/unknown"), 404],
  ] as const) {
    assert.equal(answer.status, status);
    assert.equal(answer.headers.get("access-control-allow-origin"), origin);
    assert.equal(answer.headers.get("vary"), "Origin");
  }
});

/** The first requests of a new user (root, wrong path, wrong method), with a whole gateway and the shipped file. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { manualClock } from "../../src/testing/clock.ts";
import { startTestGateway, type TestGateway } from "../../plugins/contracts/testing.ts";
import { ask as send, type Answer } from "./ask.ts";
import { shipped as shippedPipeline } from "./shipped-gateway.ts";

const shipped = shippedPipeline.replaceAll("access-log", "{ access-log: { file: access.log } }");

let gateway: TestGateway;
const clock = manualClock();

before(async () => {
  gateway = await startTestGateway({ pipeline: shipped, clock, account: { plan: "developer" } });
});

after(() => gateway[Symbol.asyncDispose]());

const ask = (path: string, key?: string, method = "GET"): Promise<Answer> =>
  send(gateway.url + path, { key, method });

describe("the root", () => {
  test("links to the documentation, for programs and for people, without a key", async () => {
    clock.advance(10_000);
    const asJson = await send(gateway.url, { headers: { accept: "application/json" } });
    assert.equal(asJson.status, 200);
    // Every answer of this route has these members.
    const { name, links } = asJson.json as { name: string; links: Record<string, string> };
    assert.equal(name, "Sluice");
    assert.deepEqual(links, {
      documentation: "/docs/api",
      openapi: "/openapi.json",
      discovery: "/.well-known/mcp",
    });
    for (const link of Object.values(links)) assert.equal((await ask(link)).status, 200, link);
    const html = await send(gateway.url, { headers: { accept: "text/html,*/*;q=0.8" } });
    assert.match(html.headers["content-type"] ?? "", /^text\/html/);
    assert.match(html.text, /<a href="\/docs\/api">documentation<\/a>/);
    assert.equal(html.headers.vary, "accept");
  });

  test("does not link to documents without a route in pipeline.yaml", async () => {
    const pipeline = shipped
      .split("\n")
      .filter((line) => !line.includes("path: /docs/api"))
      .join("\n")
      .replace("to: front-page", 'to: { front-page: { title: "A <b> & c" } }');
    await using other = await startTestGateway({ pipeline });
    const body = (await send(other.url)).json as { name: string; links: object };
    assert.equal(body.name, "A <b> & c");
    assert.deepEqual(Object.keys(body.links), ["openapi", "discovery"]);
    const page = await send(other.url, { headers: { accept: "text/html" } });
    assert.match(page.text, /<h1>A &#60;b&#62; &#38; c<\/h1>/);
  });
});

describe("a request that matches no route", () => {
  test("takes from the key's bucket when its key is valid, and is 404 or 405 for everyone", async () => {
    clock.advance(10_000);
    // An address has 5 tokens, this key has 20.
    for (let count = 0; count < 9; count++) {
      assert.equal((await ask(`/nowhere/${count}`, gateway.key)).status, 404);
      assert.equal((await ask("/v1/models", gateway.key, "DELETE")).status, 405);
    }
    const wrong = `gateway_dev_${"0".repeat(32)}`;
    const statuses = [];
    for (let count = 0; count < 6; count++) {
      statuses.push((await ask("/nowhere", count % 2 === 0 ? wrong : undefined)).status);
    }
    assert.deepEqual(statuses, [404, 404, 404, 404, 404, 429]);
    assert.equal((await ask("/nowhere", gateway.key)).status, 404);
    const policy = (await ask("/nowhere", gateway.key)).headers["ratelimit-policy"];
    assert.equal(policy, '"key";q=20;w=2');
    assert.equal((await ask("/nowhere", gateway.key)).status, 429);
  });

  test("takes from the address's bucket when it is a preflight, which has no key", async () => {
    clock.advance(10_000);
    const statuses = [];
    for (let count = 0; count < 6; count++) {
      statuses.push((await ask("/v1/models", undefined, "OPTIONS")).status);
    }
    assert.deepEqual(statuses, [405, 405, 405, 405, 405, 429]);
  });
});

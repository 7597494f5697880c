/** Tests of the algorithm that combines documented parts, and of the surface that serves the document and its page. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { documentOf, type OpenApiDocument } from "../../../../plugins/edge/openapi/document.ts";
import type { DocumentedRoute, Operation } from "../../../../src/plugin.ts";
import { startTestGateway, type TestGateway } from "../../../../plugins/contracts/testing.ts";

const about = { title: "T", description: "D", version: "1", url: "/" };

function route(path: string, parts: readonly Operation[], method = "GET"): DocumentedRoute {
  const surface = { name: "s", description: "Serves." };
  return { path, websocket: false, surface, operations: [{ method, parts }] };
}

function document(...routes: readonly DocumentedRoute[]): OpenApiDocument {
  return documentOf(routes, about);
}

describe("the document", () => {
  it("combines parts: parameters, a body, answers, and refusals with the same status", () => {
    const { paths } = document(
      route(
        "/a/{id}",
        [
          {
            headers: { type: "object", properties: { "x-a": { type: "string" } } },
            refusals: [{ code: "GATEWAY_NOT_FOUND", description: "No such thing" }],
            answerHeaders: { "X-B": { description: "B.", schema: { type: "string" } } },
          },
          {
            summary: "Do it",
            path: { type: "object", properties: { id: { type: "string", pattern: "^x" } } },
            query: { type: "object", properties: { q: { type: "integer" } }, required: ["q"] },
            answers: {
              200: { description: "Done", content: { "application/json": { type: "object" } } },
              404: { description: "Lost", content: { "application/json": { type: "array" } } },
            },
          },
        ],
        "POST",
      ),
    );
    const operation = paths["/a/{id}"]?.["post"];
    assert.equal(operation?.operationId, "postAId");
    assert.equal(operation.summary, "Do it");
    assert.deepEqual(operation.security, [{}]);
    assert.deepEqual(operation.parameters, [
      { name: "id", in: "path", required: true, schema: { type: "string", pattern: "^x" } },
      { name: "q", in: "query", required: true, schema: { type: "integer" }, example: 1 },
      { name: "x-a", in: "header", required: false, schema: { type: "string" }, example: "text" },
    ]);
    const headers = { "X-B": { $ref: "#/components/headers/X-B" } };
    const error = {
      allOf: [
        { $ref: "#/components/schemas/Error" },
        { properties: { error_code: { enum: ["GATEWAY_NOT_FOUND"] } } },
      ],
    };
    assert.deepEqual(operation.responses, {
      200: {
        description: "Done.",
        headers,
        content: { "application/json": { schema: { type: "object" }, example: {} } },
      },
      404: {
        description: "Lost. No such thing.",
        headers,
        content: {
          "application/json": { schema: { anyOf: [{ type: "array" }, error] }, example: [] },
        },
      },
    });
  });

  it("shares identical parts, and repeats different parts with the same name", () => {
    const busy = (description: string): Operation => ({
      answers: { 204: { description: "Done" } },
      refusals: [{ code: "GATEWAY_RATE_LIMITED", description }],
    });
    const { paths, components } = document(
      route("/a", [busy("Busy")]),
      route("/b", [busy("Busy")]),
      route("/c", [busy("Other")]),
    );
    const ref = { $ref: "#/components/responses/RateLimited" };
    assert.deepEqual(paths["/a"]?.["get"]?.responses["429"], ref);
    assert.deepEqual(paths["/b"]?.["get"]?.responses["429"], ref);
    assert.partialDeepStrictEqual(paths["/c"]?.["get"]?.responses["429"], {
      description: "Other.",
    });
    assert.deepEqual(Object.keys(components.responses), ["RateLimited"]);
    assert.ok("Retry-After" in (components.responses["RateLimited"]?.headers ?? {}));
  });

  it("merges the required capabilities of several steps, and lists alternatives", () => {
    const { paths } = document(
      route("/a", [{ access: [] }, { access: ["workspace:admin", "platform:admin"] }]),
      route("/b", [{ access: ["inference"] }, { access: ["ledger:read"] }]),
    );
    assert.deepEqual(paths["/a"]?.["get"]?.security, [
      { key: ["workspace:admin"] },
      { key: ["platform:admin"] },
    ]);
    assert.deepEqual(paths["/b"]?.["get"]?.security, [{ key: ["inference", "ledger:read"] }]);
  });

  it("documents a surface without `operation` as one that may answer anything", () => {
    const { paths } = document(route("/files/*", []));
    const operation = paths["/files/{rest}"]?.["get"];
    assert.deepEqual(Object.keys(operation?.responses ?? {}), ["default"]);
    assert.equal(operation?.summary, "Serves");
    assert.equal(operation.parameters?.[0]?.name, "rest");
  });

  it("gives every operation a unique id", () => {
    const { paths } = document(route("/a/b", []), route("/a/{b}", []), route("/a-b", []));
    const ids = Object.values(paths).map((operations) => operations["get"]?.operationId);
    assert.deepEqual(ids, ["getAB", "getAB2", "getAB3"]);
  });

  it("omits what OpenAPI cannot express, and keeps the first of two routes", () => {
    const first = { summary: "First" };
    const { paths } = document(
      route("/a", [first]),
      route("/a", [{ summary: "Second" }]),
      route("/b", [], "PROPFIND"),
    );
    assert.equal(paths["/a"]?.["get"]?.summary, "First");
    assert.equal(paths["/b"], undefined);
  });
});

const pipeline = (more = ""): string => `version: 1
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
upstreams: { files: { urls: "http://127.0.0.1:9" } }
lists: { known: [request-id, authenticate] }
routes:
  - { path: /openapi.json, methods: [GET], run: [], to: { openapi: { title: "Acme & Co" } } }
  - { path: /page, methods: [GET], run: [], to: { openapi: { as: page, title: "Acme & Co" } } }
  - path: /checked
    methods: [POST]
    run:
      - use: known
      - { validate: { query: { type: object, properties: { n: { type: integer } } }, body: { type: object, required: [a] } } }
      - { authorize: { require: "ledger:read" }, mode: shadow }
      - { authorize: { require: inference }, when: { header: { x-strict: "*" } } }
    to: { forward: { upstream: files } }
  - { path: /any/*, to: { forward: { upstream: files } } }
${more}`;

interface Shown {
  readonly info: { readonly title: string };
  readonly paths: Readonly<Record<string, Readonly<Record<string, Shape>>>>;
}
interface Shape {
  readonly security: unknown;
  readonly requestBody: unknown;
  readonly parameters: readonly { readonly name: string }[];
  readonly responses: Readonly<Record<string, unknown>>;
}

describe("the surface", () => {
  let shared: TestGateway;
  before(async () => {
    shared = await startTestGateway({ pipeline: pipeline() });
  });
  after(() => shared[Symbol.asyncDispose]());

  it("documents validate's schemas, ignores a step in shadow mode, and does not require what a conditional step requires", async () => {
    // The shape of the document itself.
    const shown = (await (await fetch(`${shared.url}/openapi.json`)).json()) as Shown;
    assert.equal(shown.info.title, "Acme & Co");
    const checked = shown.paths["/checked"]?.["post"];
    assert.ok(checked);
    assert.deepEqual(
      checked.parameters.map(({ name }) => name),
      ["n", "x-request-id"],
    );
    assert.deepEqual(checked.security, [{}]);
    assert.ok(
      "400" in checked.responses && "403" in checked.responses && "413" in checked.responses,
    );
    assert.deepEqual(Object.keys(shown.paths["/any/{rest}"] ?? {}).toSorted(), [
      "delete",
      "get",
      "patch",
      "post",
      "put",
    ]);
    assert.ok("/healthz" in shown.paths);
  });

  it("answers with the current document, also after a reload, and with 304 while it is unchanged", async () => {
    await using gateway = await startTestGateway({ pipeline: pipeline() });
    const url = `${gateway.url}/openapi.json`;
    const first = await fetch(url);
    const etag = first.headers.get("etag") ?? "";
    assert.equal(first.headers.get("access-control-allow-origin"), "*");
    assert.doesNotMatch(await first.text(), /"\/new"/);
    assert.equal((await fetch(url, { headers: { "if-none-match": `"x", ${etag}` } })).status, 304);
    await gateway.write(pipeline(`  - { path: /new, methods: [GET], to: discovery }\n`));
    assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
    const second = await fetch(url, { headers: { "if-none-match": etag } });
    assert.equal(second.status, 200);
    assert.match(await second.text(), /"\/new"/);
  });

  it("sends the page and its files with a policy that allows no inline code", async () => {
    await using gateway = await startTestGateway({
      pipeline: pipeline().replace("as: page,", "as: page, url: https://api.example,"),
    });
    const answer = await fetch(`${gateway.url}/page`);
    assert.equal(answer.headers.get("content-type"), "text/html; charset=utf-8");
    assert.equal(
      answer.headers.get("content-security-policy"),
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self' https://api.example; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    );
    const page = await answer.text();
    assert.match(page, /<title>Acme &#38; Co<\/title>/);
    assert.doesNotMatch(page, /<script(?![^>]* src=)|\son\w+=|\sstyle=|https?:\/\/(?!api)/);
    const names = [...page.matchAll(/"\?asset=([^"]+)"/g)].map(([, name = ""]) => name);
    for (const name of [...names, "samples.js", "openapi.json"]) {
      const url = `${gateway.url}/page?asset=${name}`;
      const plain = await fetch(url, { headers: { "accept-encoding": "identity" } });
      assert.equal(plain.status, 200, name);
      assert.equal(plain.headers.get("content-encoding"), null);
      const packed = await fetch(url);
      assert.equal(packed.headers.get("content-encoding"), "gzip");
      // fetch has decompressed it.
      assert.equal(await packed.text(), await plain.text());
      const etag = plain.headers.get("etag") ?? "";
      assert.equal((await fetch(url, { headers: { "if-none-match": etag } })).status, 304);
    }
  });

  it("sends no other file than those of the page", async () => {
    for (const name of " x.js ../index.ts ..%2findex.ts constructor tsconfig.json".split(" ")) {
      assert.equal((await fetch(`${shared.url}/page?asset=${name}`)).status, 404, name);
    }
  });
});

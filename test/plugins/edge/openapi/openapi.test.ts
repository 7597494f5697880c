import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { describe, it } from "node:test";
import { documentOf, type OpenApiDocument } from "../../../../plugins/edge/openapi/document.ts";
import { pageOf } from "../../../../plugins/edge/openapi/page.ts";
import type { DocumentedRoute, Operation } from "../../../../src/plugin.ts";
import { startTestGateway } from "../../../../src/testing/gateway.ts";

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

describe("the page", () => {
  it("runs no script, and escapes the texts of plugins and operators", () => {
    const evil = `<script>alert("1")</script>`;
    const part: Operation = {
      summary: evil,
      description: `\`${evil}\``,
      query: { type: "object", properties: { [evil]: { description: evil, enum: [evil] } } },
      body: { content: { [evil]: { type: "object", properties: { [evil]: {} } } }, required: true },
      answers: { 200: { description: evil } },
    };
    const page = pageOf(documentOf([route(`/${evil}`, [part])], { ...about, title: evil }), evil);
    assert.ok(page.includes("&lt;script&gt;"));
    assert.doesNotMatch(page, /<script|\son\w+=|\sstyle=|https?:/);
  });

  it("terminates for schemas that refer to themselves or are deeply nested", () => {
    let deep: object = { type: "string" };
    for (let n = 0; n < 100; n++) deep = { type: "object", properties: { a: deep } };
    const self = { $ref: "#/components/schemas/Error" };
    const content = { "application/json": { anyOf: [deep, self, { type: "array", items: self }] } };
    const answers = { 200: { description: "Deep", content } };
    assert.match(pageOf(document(route("/a", [{ answers }])), "/o"), /See the document/);
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
  it("documents validate's schemas, ignores a step in shadow mode, and does not require what a conditional step requires", async () => {
    await using gateway = await startTestGateway({ pipeline: pipeline() });
    // The shape of the document itself.
    const shown = (await (await fetch(`${gateway.url}/openapi.json`)).json()) as Shown;
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

  it("sends the page with a policy that allows no script and only the page's own style", async () => {
    await using gateway = await startTestGateway({ pipeline: pipeline() });
    const answer = await fetch(`${gateway.url}/page`);
    const page = await answer.text();
    assert.equal(answer.headers.get("content-type"), "text/html; charset=utf-8");
    const [, style = ""] = /<style>([^]*?)<\/style>/.exec(page) ?? [];
    const hash = createHash("sha256").update(style).digest("base64");
    const policy = answer.headers.get("content-security-policy") ?? "";
    assert.match(policy, /^default-src 'none'; style-src 'sha256-/);
    assert.ok(policy.includes(`'sha256-${hash}'`));
    assert.match(page, /<title>Acme &amp; Co<\/title>/);
    const ids = new Set([...page.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id));
    const links = [...page.matchAll(/href="#([^"]+)"/g)].map(([, id]) => id);
    assert.ok(links.length > 10);
    assert.deepEqual(
      links.filter((id) => !ids.has(id)),
      [],
    );
  });
});

/** Tests of the router, and of the parsers of API keys in paths and of the plugins in stack traces. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { RoutedRequest } from "../../../src/message/request-head.ts";
import { credentialRemover } from "../../../src/pipeline/load/path-credential.ts";
import { pluginOfStack } from "../../../src/pipeline/load/plugin-of-stack.ts";
import { createRouter, type Match } from "../../../src/pipeline/load/router.ts";
import type { CompiledRoute } from "../../../src/pipeline/run/compile.ts";

/** The router reads only path and methods of a compiled route. */
function route(path: string, methods: readonly string[] = ["GET"]): CompiledRoute {
  return { config: { path, methods } } as unknown as CompiledRoute;
}

function found(match: Match): string {
  if (match.kind === "route") {
    return `${match.route.config.path} ${JSON.stringify(match.params)}`;
  }
  return match.kind === "wrongMethod" ? `405 ${match.allow}` : "404";
}

const router = createRouter([
  route("/files/*"),
  route("/{network}/v1/models"),
  route("/v1/models"),
  route("/v1/rpc", ["POST"]),
  route("/v1/rpc", ["DELETE"]),
  route("/any", ["*"]),
]);
const find = (method: string, path: string): string => found(router.find(method, path));

test("a literal path has precedence over a pattern, whatever the order in the file", () => {
  assert.equal(find("GET", "/v1/models"), "/v1/models {}");
  assert.equal(find("GET", "/alpha/v1/models"), '/{network}/v1/models {"network":"alpha"}');
});

test("segments are decoded once, after the match", () => {
  assert.equal(find("GET", "/a%20b/v1/models"), '/{network}/v1/models {"network":"a b"}');
  assert.equal(find("GET", "/a%252fb/v1/models"), '/{network}/v1/models {"network":"a%2fb"}');
  assert.equal(find("GET", "/%zz/v1/models"), "404");
  assert.equal(find("GET", "//v1/models"), "404");
});

test("paths are matched as sent: slashes are not merged, case matters, and nothing is decoded first", () => {
  for (const path of ["/v1/models/", "/v1//models", "/V1/models", "/v1/%6dodels", "/v1", ""]) {
    assert.equal(find("GET", path), "404", path);
  }
});

test("a prefix route matches the paths below it, except those that leave it with `..`", () => {
  assert.equal(find("GET", "/files/a/b"), "/files/* {}");
  assert.equal(find("GET", "/files/"), "/files/* {}");
  assert.equal(find("GET", "/files"), "404");
  for (const path of ["/files/../v1/rpc", "/files/%2e%2e/x", "/files/.%2E/x", "/files/./x"]) {
    assert.equal(find("GET", path), "404", path);
  }
});

test("a wrong method of a known path gets 405 with all allowed methods", () => {
  assert.equal(find("GET", "/v1/rpc"), "405 POST, DELETE");
  assert.equal(find("POST", "/v1/models"), "405 GET, HEAD");
  assert.equal(find("POST", "/alpha/v1/models"), "405 GET, HEAD");
});

test("GET implies HEAD, and * allows any method", () => {
  assert.equal(find("HEAD", "/v1/models"), "/v1/models {}");
  assert.equal(find("PURGE", "/any"), "/any {}");
});

const keyed = { path: "/v1/{tenant}/ws/{key}", credential: "key" };
const models = { path: "/v1/models", credential: undefined };
const unmatched = { path: "(unmatched)", credential: undefined };
const remove = credentialRemover([keyed, models]);

function request(
  path: string,
  params: Readonly<Record<string, string>> = {},
  headers: Readonly<Record<string, string>> = {},
  query = "",
): RoutedRequest {
  const target = query === "" ? path : `${path}?${query}`;
  const req = {
    url: target,
    httpVersionMinor: 1,
    headers,
    rawHeaders: [],
    socket: { bytesRead: 0 },
  };
  return { req, path, query, target, params };
}

test("the credential becomes the Authorization header and leaves path, target and params", () => {
  const moved = remove(
    request("/v1/a/ws/s%65cret", { tenant: "a", key: "secret" }, {}, "x=1"),
    keyed,
  );
  assert.equal(moved.path, "/v1/a/ws/{key}");
  assert.equal(moved.target, "/v1/a/ws/{key}?x=1");
  assert.equal(moved.req.url, "/v1/a/ws/{key}?x=1");
  assert.deepEqual(moved.params, { tenant: "a" });
  assert.equal(moved.req.headers.authorization, "Bearer secret");
});

test("a header that the client sent has precedence", () => {
  const sent = request("/v1/a/ws/secret", { key: "secret" }, { authorization: "Bearer mine" });
  assert.equal(remove(sent, keyed).req.headers.authorization, "Bearer mine");
});

test("a credential that no header can contain is dropped", () => {
  for (const key of ["a b", "a\r\nx: y", "é", "\u0000"]) {
    const moved = remove(request("/v1/a/ws/x", { key }), keyed);
    assert.equal(moved.req.headers.authorization, undefined, JSON.stringify(key));
  }
});

test("misspelled forms of the path do not show the credential", () => {
  for (const path of [
    "/v1/a/ws/secret",
    "/v1/a/ws/secret/",
    "/v1/a/ws/x/secret",
    "/v1/a/ws//secret",
  ]) {
    assert.equal(remove(request(path, {}, {}, "q"), unmatched).target, "/v1/a/ws/{key}?q", path);
  }
  assert.equal(remove(request("/v1/a/w/x"), unmatched).path, "/v1/a/w/x");
});

test("a path without a route does not show the text of a key, also if it is escaped", () => {
  const hex = "0123456789abcdef0123456789abcdef";
  for (const text of [`gateway_dev_${hex}`, `%67ateway%5Fdev_${hex}`, `GATEWAY_DEV_${hex}`]) {
    for (const front of ["//v1/a/ws/", "/V1/a/ws/", "/%ff/", "/v1/a/ws%2f"]) {
      const { path, target } = remove(request(front + text), unmatched);
      assert.ok(!target.includes(hex) && path === target, target);
    }
  }
});

test("other routes keep their requests", () => {
  const plain = request("/v1/models");
  assert.equal(remove(plain, models), plain);
  assert.equal(credentialRemover([models])(plain, unmatched), plain);
});

const modules = new Map([
  ["/app/node_modules/sluice-gateway/plugins/meter/index.ts", "meter"],
  ["/app/node_modules/sluice-gateway/plugins/chat/index.ts", "chat"],
  ["/app/node_modules/@acme/sluice-log/dist/index.js", "acme-log"],
  ["/app/plugins/one.ts", "one"],
  ["/app/plugins/two.ts", "two"],
  ["/app/own/index.ts", "own"],
]);

const stack = (...places: string[]): string =>
  ["Error: at /app/own/index.ts:1:1 it broke", ...places.map((place) => `    at ${place}`)].join(
    "\n",
  );

const cases: readonly [title: string, places: string[], plugin: string | undefined][] = [
  ["a plugin's module", ["tick (file:///app/plugins/two.ts:3:9)"], "two"],
  ["a frame without a function", ["file:///app/plugins/one.ts:3:9"], "one"],
  ["an awaited frame", ["async Object.start (file:///app/own/index.ts:3:9)"], "own"],
  ["a path instead of a URL", ["Timeout._onTimeout (/app/own/timer.js:3:9)"], "own"],
  ["a file below the folder", ["file:///app/own/lib/deep/x.ts:3:9"], "own"],
  ["a file beside two plugins", ["file:///app/plugins/shared.ts:3:9"], undefined],
  [
    "a file beside two plugins, called by one",
    ["file:///app/plugins/shared.ts:3:9", "file:///app/plugins/one.ts:7:1"],
    "one",
  ],
  [
    "a shipped plugin",
    ["f (file:///app/node_modules/sluice-gateway/plugins/chat/x.ts:3:9)"],
    "chat",
  ],
  [
    "another file of a package",
    ["f (file:///app/node_modules/@acme/sluice-log/lib/x.js:3:9)"],
    "acme-log",
  ],
  [
    "a library that a plugin has called",
    ["f (file:///app/own/node_modules/pg/index.js:1:1)", "file:///app/own/index.ts:2:2"],
    "own",
  ],
  [
    "the topmost of two plugins",
    ["file:///app/plugins/one.ts:3:9", "file:///app/plugins/two.ts:3:9"],
    "one",
  ],
  [
    "the core",
    ["f (file:///app/node_modules/sluice-gateway/src/pipeline/run/run.ts:3:9)"],
    undefined,
  ],
  [
    "Node and an unknown file",
    ["node:internal/timers:605:17", "file:///elsewhere/x.ts:1:1"],
    undefined,
  ],
  ["a stack without frames", [], undefined],
];

for (const [title, places, plugin] of cases) {
  test(`the plugin of a stack: ${title}`, () => {
    const core = "/app/node_modules/sluice-gateway/src/pipeline/load/plugin-of-stack.ts";
    assert.equal(pluginOfStack(stack(...places), modules, core), plugin);
  });
}

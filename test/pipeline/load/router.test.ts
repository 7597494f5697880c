/** Tests of the algorithm that matches a path and a method to a route. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { CompiledRoute } from "../../../src/pipeline/run/compile.ts";
import { createRouter, type Match } from "../../../src/pipeline/load/router.ts";

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

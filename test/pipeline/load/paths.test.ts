/** Tests of the algorithm that matches a path and a method to a route, and of the parser that removes an API key from a path. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { RoutedRequest } from "../../../src/message/request-head.ts";
import { credentialRemover } from "../../../src/pipeline/load/path-credential.ts";
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

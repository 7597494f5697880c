/** Tests of the parser that removes an API key from a path. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { credentialRemover } from "../../../src/pipeline/load/path-credential.ts";
import type { RoutedRequest } from "../../../src/message/request-head.ts";

const keyed = { path: "/v1/{tenant}/ws/{key}", credential: "key" };
const other = { path: "/v1/models", credential: undefined };
const unmatched = { path: "(unmatched)", credential: undefined };
const remove = credentialRemover([keyed, other]);

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
  assert.equal(remove(plain, other), plain);
  assert.equal(credentialRemover([other])(plain, unmatched), plain);
});

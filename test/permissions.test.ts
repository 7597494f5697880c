/** The permissions of a manifest: their form, and what they grant. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { grantsOf, permissionProblems } from "../src/contract/permissions.ts";

test("a manifest without permissions grants its services and the change of bodies", () => {
  assert.deepEqual(grantsOf({ uses: ["routes", "gateway"], usesIfInstalled: ["tools"] }), {
    services: ["gateway", "routes", "tools"],
    hosts: [],
    env: [],
    body: "write",
    deployment: [],
  });
});

test("a missing member of permissions grants nothing", () => {
  assert.deepEqual(grantsOf({ permissions: { env: ["ACME_KEY"] } }), {
    services: [],
    hosts: [],
    env: ["ACME_KEY"],
    body: "none",
    deployment: [],
  });
});

test("valid permissions have no problems", () => {
  const hosts = ["api.acme.com:443", "127.0.0.1:80", "[::1]:9000", "*"];
  const deployment = ["store", "seal", "claims"];
  const valid = [undefined, {}, { hosts }, { env: ["ACME_KEY"] }, { body: "read" }, { deployment }];
  for (const value of valid) assert.deepEqual(permissionProblems(value), []);
});

test("each wrong member is named", () => {
  const hosts = ["api.acme.com", "https://acme.com:443", "acme.com:0", "ACME.com:443", 5].map(
    (host) => ({ hosts: [host] }),
  );
  const parts = [{ deployment: ["storage"] }, { deployment: "store" }];
  const wrong = [...hosts, { env: ["A B"] }, { env: "ACME" }, { body: "all" }, { services: [] }];
  for (const value of [...wrong, ...parts, null, [], "write"]) {
    assert.equal(permissionProblems(value).length, 1, JSON.stringify(value));
  }
});

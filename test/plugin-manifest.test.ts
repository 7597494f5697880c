/** The manifest of a plugin: the permissions that it asks for, and the type that the schema of its options determines. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  contractVersion,
  deprecatedHooks,
  isContractRange,
  supportsContract,
} from "../src/contract/version.ts";
import { grantsOf, permissionProblems } from "../src/contract/permissions.ts";
import { defineStep, defineSurface } from "../src/plugin.ts";
import { testStep } from "../plugins/contracts/testing.ts";

test("a range covers its first number, from its second one on", () => {
  assert.ok(supportsContract("^1", "1.0"));
  assert.ok(supportsContract("^1", "1.12"));
  assert.ok(supportsContract("^1.2", "1.10"));
  assert.ok(!supportsContract("^1.2", "1.1"));
  assert.ok(!supportsContract("^1", "2.0"));
  assert.ok(!supportsContract("^2", "1.9"));
  assert.ok(!supportsContract("^10", "1.0"));
  assert.ok(supportsContract("^1.3 || ^2", "2.0") && supportsContract("^1.3 || ^2", "1.3"));
  assert.ok(!supportsContract("^1.3 || ^2", "1.2"));
});

test("only ranges of this form are valid", () => {
  for (const range of ["^1", "^1.0", "^12.34", "^1 || ^2", "^1.3 || ^2.1"])
    assert.ok(isContractRange(range), range);
  const wrong = "1, ^0, ^1.2.3, >=1, *, ^1 || 2, ^1||^2,".split(", ");
  for (const range of [...wrong, "^1 ", "", 1, undefined]) {
    assert.ok(!isContractRange(range), String(range));
  }
  assert.throws(() => supportsContract("latest"), /not a range of contract versions: latest/);
});

test("this release supports plugins for its own version", () => {
  assert.ok(supportsContract(`^${contractVersion}`));
});

test("a deprecated hook is named with the version that removes it", () => {
  const list = [
    { kind: "step", hook: "requestBody", removedIn: "2.0", instead: "Use requestHeaders." },
  ] as const;
  const hooks = { requestBody() {}, requestHeaders() {} };
  assert.deepEqual(deprecatedHooks("step", hooks, list), [
    "the hook requestBody will be removed in version 2.0 of the plugin contract. Use requestHeaders.",
  ]);
  assert.deepEqual(deprecatedHooks("surface", hooks, list), []);
  assert.deepEqual(deprecatedHooks("step", {}, list), []);
  assert.deepEqual(deprecatedHooks("step", hooks), []);
});

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

type Equal<A, B> = [A] extends [B] ? ([B] extends [A] ? true : false) : false;

/** A call of the result compiles only with a value of exactly this type. */
function hasType<Expected>() {
  return <T>(_: T, ..._same: Equal<T, Expected> extends true ? [] : [never]): void => {};
}

const step = defineStep({
  name: "counts",
  description: "Has options of each type.",
  options: {
    type: "object",
    properties: {
      count: { type: "integer" },
      title: { type: "string", default: "" },
      mode: { enum: ["fast", "exact"] },
      hosts: { type: "array", items: { type: "string" } },
      limit: { type: ["number", "null"] },
      prices: { type: "object", additionalProperties: { type: "number" }, default: {} },
      other: {},
    },
    required: ["count"],
    additionalProperties: false,
  },
  start(options) {
    hasType<{
      readonly count: number;
      readonly title: string;
      readonly mode?: "fast" | "exact";
      readonly hosts?: readonly string[];
      readonly limit?: number | null;
      readonly prices: Readonly<Record<string, number>>;
      readonly other?: unknown;
    }>()(options);
    const { count } = options;
    return { responseHeaders: (_, head) => head.set("x-count", String(count + 1)) };
  },
});

defineSurface({
  name: "misspelt",
  description: "Reads an option that its schema does not have.",
  options: { type: "object", properties: { cuont: { type: "string" } } },
  // @ts-expect-error The schema has no `count`.
  start: ({ count }) => ({ answer: () => ({ status: 200, body: String(count) }) }),
});

test("a step gets the options whose type its schema determines", async () => {
  await using tested = await testStep(step, { options: { count: 1 } });
  const { headers } = await tested.send({});
  assert.equal(new Headers(headers).get("x-count"), "2");
});

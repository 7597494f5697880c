/** Tests of the parser of changes to the catalogue of a network, by the same schema that the OpenAPI document contains. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  bodySchema,
  readOverrides,
} from "../../../plugins/inference/network-models/read-overrides.ts";
import { operation } from "../../../plugins/inference/network-models/index.ts";

interface Violations {
  readonly details: { readonly violations: readonly { readonly path: string }[] };
}

/** Returns the position of the error in a body. Undefined if it is valid. */
function wrongAt(body: unknown): string | undefined {
  const read = readOverrides(body);
  if (!("refused" in read)) return undefined;
  assert.equal(read.refused.code, "GATEWAY_INVALID_PARAMS");
  // Our own refusal.
  const { details } = JSON.parse(String(read.refused.body)) as Violations;
  assert.equal(details.violations.length, 1);
  return details.violations[0]?.path;
}

test("the document shows the schema that bodies are checked against", () => {
  assert.equal(operation.body?.content["application/json"], bodySchema);
});

test("overrides are read in order, and missing members are not set", () => {
  const models = [
    { id: "B/2", enabled: true, owned_by: "b", price_coefficient: 0 },
    { id: "C/3", enabled: true, price_per_token_nano: 0.5 },
    { id: "D/4", enabled: true, price_per_token_nano: { prompt: "1", cached: 0, completion: "7" } },
    { id: "A/1", enabled: false },
  ];
  const plain = { enabled: true, ownedBy: undefined, priceCoefficient: undefined };
  const classes = { prompt: "1", cached: "0", completion: "7", reasoning: "7" };
  assert.deepEqual(readOverrides({ models }), {
    models: [
      { id: "B/2", enabled: true, ownedBy: "b", priceCoefficient: 0 },
      { ...plain, id: "C/3", prices: { pricePerTokenNano: "0.5" } },
      { ...plain, id: "D/4", prices: { pricePerTokenNano: "7", classes } },
      { ...plain, id: "A/1", enabled: false },
    ],
  });
  assert.deepEqual(readOverrides({ models: [] }), { models: [] });
});

test("limits are checked for every entry, and a refusal names the position", () => {
  const of = (member: object): unknown => ({ models: [{ id: "A/1", enabled: true, ...member }] });
  assert.equal(wrongAt(of({ id: "x".repeat(256) })), undefined);
  assert.equal(wrongAt(of({ id: "x".repeat(257) })), "/body/models/0/id");
  assert.equal(wrongAt(of({ owned_by: "" })), "/body/models/0/owned_by");
  assert.equal(wrongAt(of({ price_coefficient: 1_000_000 })), undefined);
  const at = "/body/models/0/price_coefficient";
  for (const price_coefficient of [-1, 1.5, 1_000_001, "1", null, 1e300]) {
    assert.equal(wrongAt(of({ price_coefficient })), at, String(price_coefficient));
  }
  for (const price of [-1, "x", null, {}, 1e10, { prompt: 1 }, { prompt: 1, completion: "x" }]) {
    const path = wrongAt(of({ price_per_token_nano: price }));
    assert.match(path ?? "", /^\/body\/models\/0\/price_per_token_nano/, JSON.stringify(price));
  }
  const many = (count: number): unknown => ({
    models: Array.from({ length: count }, (_, n) => ({ id: String(n), enabled: true })),
  });
  assert.equal(wrongAt(many(10_000)), undefined);
  assert.equal(wrongAt(many(10_001)), "/body/models");
});

test("ids must be text that the store keeps unchanged and that a terminal can show", () => {
  const at = (id: string): string | undefined => wrongAt({ models: [{ id, enabled: true }] });
  for (const id of ["\ud800", "a\udfffb", "\0", "a\nb", "a\x1b[31m", "a\x7f"]) {
    assert.equal(at(id), "/body/models/0/id", JSON.stringify(id));
  }
  for (const id of ["Acme/Große-1", "模型", "🦙", "a b"]) assert.equal(at(id), undefined, id);
});

test("an id may occur once; names of Object.prototype are valid ids", () => {
  const ids = (...all: string[]): unknown => ({ models: all.map((id) => ({ id, enabled: true })) });
  assert.equal(wrongAt(ids("A/1", "__proto__", "constructor")), undefined);
  assert.equal(wrongAt(ids("A/1", "B/2", "A/1")), "/body/models/2/id");
});

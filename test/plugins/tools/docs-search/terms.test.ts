import assert from "node:assert/strict";
import { test } from "node:test";
import { termsOf } from "../../../../plugins/tools/docs-search/terms.ts";

const cases: readonly (readonly [text: string, terms: readonly string[]])[] = [
  ["Reserve, then settle.", ["reserve", "then", "settle"]],
  ["state_getStorage", ["state_getstorage", "state", "getstorage", "get", "storage"]],
  ["usedCUMilli", ["usedcumilli", "used", "cu", "milli"]],
  ["HTTPServer", ["httpserver", "http", "server"]],
  ["sha256", ["sha256", "sha", "256"]],
  ["GATEWAY_NOT_FOUND", ["gateway_not_found", "gateway", "not", "found"]],
  ["metering.durability: rate-limit", ["metering", "durability", "rate", "limit"]],
  ["429", ["429"]],
  ["queries keys status address", ["query", "key", "status", "address"]],
  ["Gewähr für ﬁnale Prüfung", ["gewahr", "fur", "finale", "prufung"]],
  ["Ünïcode ÉCOLE", ["unicode", "ecole"]],
  ["שלום мир", ["שלום", "мир"]],
  ["हिन्दी", ["हिन्दी"]],
  ["한국어", ["한국어"]],
  ["東京都 に 住む", ["東京", "都", "に", "住む"]],
  ["", []],
  ["— … !? 🦀", []],
  ["x".repeat(129), []],
];

for (const [text, terms] of cases) {
  test(`terms of ${JSON.stringify(text.slice(0, 40))}`, () => {
    assert.deepEqual(termsOf(text), terms);
  });
}

test("composed and decomposed letters are the same term", () => {
  assert.deepEqual(termsOf("Prüfung"), termsOf("Prüfung"));
  assert.deepEqual(termsOf("한국"), termsOf("한국".normalize("NFD")));
});

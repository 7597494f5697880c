import assert from "node:assert/strict";
import { test } from "node:test";
import manifest from "../../package.json" with { type: "json" };

/** The names of the entry points that have values, and not only types. */
const exported = {
  plugin: `
    contractVersion defineService defineStep defineSurface defineTools gatewayErrors isObject parseJson
    readJsonRpc redact refuse violationsSchema`,
  services: `
    anonymous atCoefficient capabilities createPrice decimalText keyIdPrefix modelJson modelList modelListSchema
    modelSchema parseDecimal parseTime planNames productHalfUp readTokenPrices setPrincipal spendMembers
    toolFailure toolReport`,
  "internal/toolkit": `
    BoundedMap andThen canonicalJson csvLine durationMs fragmentPointer guarded integerSchema isAbsent isObject
    jsonExcess orElse parseBoundedJson parseJson pointerKey runGuarded spaceEnd stableJson stringEnd valueEnd`,
  client: `
    ConfidentialError connect createClientMemory recomputeCost`,
  "client/proofs": `
    VerifiedProvider verifiedProvider`,
};

test("the package exports the documented names and no others", async () => {
  assert.deepEqual(manifest.exports, {
    "./plugin": "./src/plugin.ts",
    "./services": "./plugins/contracts/index.ts",
    "./internal/toolkit": "./src/entries/toolkit.ts",
    "./internal/http": "./src/entries/http.ts",
    "./internal/store": "./src/entries/store.ts",
    "./internal/postgres": "./src/entries/postgres.ts",
    "./internal/limits": "./src/entries/limits.ts",
    "./internal/compute": "./src/compute/pool.ts",
    "./internal/module": "./src/entries/module.ts",
    "./internal/process": "./src/entries/process.ts",
    "./internal/json-schema": "./src/entries/json-schema.ts",
    "./internal/package-files": "./src/base/package-files.ts",
    "./client": "./plugins/confidential/client/client.ts",
    "./client/proofs": "./plugins/proofs/client/verified-provider.ts",
    "./testing": "./plugins/contracts/testing.ts",
    "./internal/test-kit": "./src/entries/test-kit.ts",
    "./internal/bare-gateway": "./src/testing/gateway.ts",
    "./package.json": "./package.json",
  });
  for (const [entry, names] of Object.entries(exported)) {
    const found = Object.keys(await import(`sluice-gateway/${entry}`)).toSorted();
    assert.deepEqual(found, names.trim().split(/\s+/), entry);
  }
});

import assert from "node:assert/strict";
import { test } from "node:test";
import manifest from "../../package.json" with { type: "json" };

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
  assert.deepEqual(Object.keys(await import("sluice-gateway/plugin")).toSorted(), [
    "contractVersion",
    "defineService",
    "defineStep",
    "defineSurface",
    "defineTools",
    "gatewayErrors",
    "isObject",
    "parseJson",
    "readJsonRpc",
    "redact",
    "refuse",
    "violationsSchema",
  ]);
  assert.deepEqual(Object.keys(await import("sluice-gateway/services")).toSorted(), [
    "anonymous",
    "atCoefficient",
    "capabilities",
    "createPrice",
    "decimalText",
    "keyIdPrefix",
    "modelJson",
    "modelList",
    "modelListSchema",
    "modelSchema",
    "parseDecimal",
    "parseTime",
    "planNames",
    "productHalfUp",
    "readTokenPrices",
    "setPrincipal",
    "spendMembers",
    "toolFailure",
    "toolReport",
  ]);
  assert.deepEqual(Object.keys(await import("sluice-gateway/internal/toolkit")).toSorted(), [
    "BoundedMap",
    "andThen",
    "canonicalJson",
    "csvLine",
    "durationMs",
    "fragmentPointer",
    "guarded",
    "integerSchema",
    "isAbsent",
    "isObject",
    "jsonExcess",
    "orElse",
    "parseBoundedJson",
    "parseJson",
    "pointerKey",
    "runGuarded",
    "spaceEnd",
    "stableJson",
    "stringEnd",
    "valueEnd",
  ]);
  assert.deepEqual(Object.keys(await import("sluice-gateway/client")).toSorted(), [
    "ConfidentialError",
    "connect",
    "createClientMemory",
    "recomputeCost",
  ]);
  assert.deepEqual(Object.keys(await import("sluice-gateway/client/proofs")).toSorted(), [
    "VerifiedProvider",
    "verifiedProvider",
  ]);
});

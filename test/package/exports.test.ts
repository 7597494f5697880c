import assert from "node:assert/strict";
import { test } from "node:test";
import manifest from "../../package.json" with { type: "json" };

test("the package exports the documented names and no others", async () => {
  assert.deepEqual(manifest.exports, {
    "./plugin": "./src/plugin.ts",
    "./services": "./plugins/contracts/index.ts",
    "./toolkit": "./src/entries/toolkit.ts",
    "./http": "./src/entries/http.ts",
    "./store": "./src/entries/store.ts",
    "./postgres": "./src/entries/postgres.ts",
    "./limits": "./src/entries/limits.ts",
    "./compute": "./src/compute/pool.ts",
    "./module": "./src/entries/module.ts",
    "./process": "./src/entries/process.ts",
    "./json-schema": "./src/entries/json-schema.ts",
    "./package-files": "./src/package-files.ts",
    "./client": "./plugins/confidential/client/client.ts",
    "./testing": "./plugins/contracts/testing.ts",
    "./test-kit": "./src/entries/test-kit.ts",
    "./bare-gateway": "./src/testing/gateway.ts",
    "./package.json": "./package.json",
  });
  assert.deepEqual(Object.keys(await import("sluice-gateway/plugin")).toSorted(), [
    "contractVersion",
    "defineService",
    "defineStep",
    "defineSurface",
    "defineTools",
    "gatewayErrors",
    "readJsonRpc",
    "redact",
    "refuse",
    "violationsSchema",
  ]);
  assert.deepEqual(Object.keys(await import("sluice-gateway/services")).toSorted(), [
    "anonymous",
    "atCoefficient",
    "bearerChallenge",
    "capabilities",
    "createPrice",
    "decimalText",
    "modelJson",
    "modelList",
    "modelListSchema",
    "modelSchema",
    "parseDecimal",
    "parseTime",
    "planNames",
    "productHalfUp",
    "setPrincipal",
    "spendMembers",
    "toolFailure",
    "toolReport",
  ]);
  assert.deepEqual(Object.keys(await import("sluice-gateway/toolkit")).toSorted(), [
    "BoundedMap",
    "andThen",
    "canonicalJson",
    "csvLine",
    "durationMs",
    "fragmentPointer",
    "guarded",
    "integerSchema",
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
});

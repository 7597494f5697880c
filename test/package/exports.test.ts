import assert from "node:assert/strict";
import { test } from "node:test";
import manifest from "../../package.json" with { type: "json" };

test("the package exports the documented names and no others", async () => {
  assert.deepEqual(manifest.exports, {
    "./plugin": "./src/plugin.ts",
    "./client": "./plugins/confidential/client/client.ts",
    "./testing": "./src/testing/gateway.ts",
    "./package.json": "./package.json",
  });
  assert.deepEqual(Object.keys(await import("sluice-gateway/plugin")).toSorted(), [
    "BoundedMap",
    "addressKey",
    "capabilities",
    "defineService",
    "defineStep",
    "defineSurface",
    "defineTools",
    "isObject",
    "modelJson",
    "modelList",
    "modelListSchema",
    "modelSchema",
    "parseJson",
    "parseTime",
    "readJsonRpc",
    "redact",
    "refuse",
    "toolFailure",
    "toolReport",
    "violationsSchema",
  ]);
  assert.deepEqual(Object.keys(await import("sluice-gateway/client")).toSorted(), [
    "ConfidentialError",
    "connect",
    "createClientMemory",
    "recomputeCost",
  ]);
});

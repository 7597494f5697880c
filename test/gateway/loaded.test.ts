/** Tests of the packages that a gateway loads, and of its log when it stops. */
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { test } from "node:test";
import { startTestGateway } from "../../plugins/contracts/testing.ts";
import { startBareGateway } from "../../src/testing/gateway.ts";

const pipeline = `version: 1
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}", postgres: "\${DATABASE_URL:-}", redis: "\${REDIS_URL:-}" }
routes:
  - { path: /limited, methods: [GET], run: [authenticate, rate-limit], to: discovery }
`;

/** Returns the loaded packages that only shared stores need. They are CommonJS, which Node keeps in this cache. */
function loadedClients(): string[] {
  const files = Object.keys(createRequire(import.meta.url).cache);
  const names = files.map((file) => /node_modules\/(ioredis|pg)\//.exec(file)?.[1] ?? []);
  return [...new Set(names.flat())].toSorted();
}

test("a gateway without shared stores loads no client of a database or of Redis", async () => {
  await using gateway = await startTestGateway({ pipeline });
  const response = await fetch(`${gateway.url}/limited`);
  await response.text();
  assert.equal(response.status, 200);
  assert.deepEqual(loadedClients(), []);
  await import("../../src/store/redis/connect.ts");
  assert.deepEqual(loadedClients(), ["ioredis"], "the check works");
});

const drained = `
version: 1
server: { port: "\${PORT}", drainSeconds: 5, drainDelaySeconds: 0 }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
routes:
  - { path: /openapi.json, to: openapi }
`;

test("a drain has a line in the log when it begins and when it has ended", async () => {
  await using gateway = await startBareGateway({ pipeline: drained, env: { LOG_LEVEL: "info" } });
  await gateway.gateway.stop();
  const lines = gateway.lines.filter((line) => line.includes("the drain"));
  assert.equal(lines.length, 2);
  assert.match(lines[0] ?? "", /the drain begins/);
  assert.match(lines[1] ?? "", /the drain has ended/);
});

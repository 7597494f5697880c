/** The log says when a drain begins and ends. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { startBareGateway } from "../../src/testing/gateway.ts";

const pipeline = `
version: 1
server: { port: "\${PORT}", drainSeconds: 5, drainDelaySeconds: 0 }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
routes:
  - { path: /openapi.json, to: openapi }
`;

test("a drain has a line in the log when it begins and when it has ended", async () => {
  await using gateway = await startBareGateway({ pipeline, env: { LOG_LEVEL: "info" } });
  await gateway.gateway.stop();
  const lines = gateway.lines.filter((line) => line.includes("the drain"));
  assert.equal(lines.length, 2);
  assert.match(lines[0] ?? "", /the drain begins/);
  assert.match(lines[1] ?? "", /the drain has ended/);
});

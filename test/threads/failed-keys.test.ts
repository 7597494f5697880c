/** Failed keys are counted over all threads. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { startTestGateway } from "../../plugins/contracts/testing.ts";

const pipeline = `version: 1
server: { port: "\${PORT}", threads: 2 }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
routes:
  - path: /x
    run: [request-id, { authenticate: { failures: 10 } }, { authorize: { require: key } }]
    to: discovery
`;

test("an address that presents unknown keys is blocked, whichever threads it reaches", async (t) => {
  const gateway = await startTestGateway({ pipeline });
  t.after(() => gateway[Symbol.asyncDispose]());
  const statusOf = async (key: string): Promise<number> => {
    const headers = { authorization: `Bearer ${key}`, connection: "close" };
    return (await fetch(`${gateway.url}/x`, { headers })).status;
  };
  // A well-formed key that was never issued.
  const unknown = gateway.key.slice(0, -1) + (gateway.key.endsWith("A") ? "B" : "A");
  const statuses: number[] = [];
  while (statuses.length < 100) statuses.push(await statusOf(unknown));
  // Each thread learns of the block when the main thread has counted its next failure. Alone, each would allow 10.
  const failed = statuses.filter((status) => status === 401).length;
  assert.ok(failed >= 10 && failed < 20, `${failed} failures`);
  assert.equal(await statusOf(gateway.key), 200);
});

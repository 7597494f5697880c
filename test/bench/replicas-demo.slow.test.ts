import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";

const root = join(import.meta.dirname, "../..");

test("npm run replicas spends one budget exactly through three gateways", async () => {
  const demo = join(root, "bench/replicas/demo.ts");
  const { stdout } = await promisify(execFile)(process.execPath, [demo, "--once"]);
  const answered = [...stdout.matchAll(/gateway \d answered (\d+) calls/g)].map(([, n]) =>
    Number(n),
  );
  assert.equal(answered.length, 3);
  const sum = answered.reduce((total, n) => total + n, 0);
  // A call of system_health costs 100 milli-CU.
  assert.equal(sum, 30);
  assert.match(stdout, /PostgreSQL has 30 charges, which total 3 CU\./);
  assert.match(stdout, /curl http:\/\/127\.0\.0\.1:\d+\/v1\/ledger\/rpc/);
});

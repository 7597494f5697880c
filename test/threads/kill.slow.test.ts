/** A process with three threads is killed with SIGKILL while it charges: every answer that it has sent is a charge. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { issueKey } from "../../bench/load/key.ts";
import { readUsage } from "../../plugins/billing/metering/read-usage.ts";
import { temporaryFolder } from "../store/folder.ts";
import { askWith } from "./ask.ts";

const rounds = 3;
const answersPerRound = 400;
const price = 10;
const pipeline = `version: 1
server: { port: "\${PORT}", threads: 3, drainDelaySeconds: 0 }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
plans: { enterprise: { rps: 1000000, includedCu: 1000000 } }
routes:
  - { path: /, methods: [GET], run: [request-id, authenticate, { authorize: { require: key } }, { meter: { price: ${price} } }], to: discovery }
`;
const main = join(import.meta.dirname, "../../src/main.ts");

test("after kills of a process with three threads, every answer is a charge, once", async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, "pipeline.yaml");
  const data = join(folder, "data");
  mkdirSync(data);
  writeFileSync(file, pipeline);
  const env = { DATA_DIR: data, PORT: "0", ADMIN_PORT: "0" };
  const key = issueKey(file, env);
  const answered = new Set<string>();
  for (let round = 0; round < rounds; round++) {
    const args = [main, "start", "--json", "--config", file];
    const child = spawn(process.execPath, args, {
      env: { ...process.env, ...env },
      stdio: ["ignore", "pipe", "inherit"],
    });
    const exit = once(child, "exit");
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    createInterface(child.stdout).on("line", (line) => {
      if (line.startsWith('{"url"')) resolve((JSON.parse(line) as { url: string }).url);
    });
    child.once("exit", () => reject(new Error("the gateway ended before it listened")));
    const url = await promise;
    const enough = answered.size + answersPerRound;
    await Promise.all(
      Array.from({ length: 24 }, () =>
        askWith(url, key, ({ status, requestId }) => {
          assert.equal(status, 200);
          answered.add(requestId);
          if (answered.size >= enough) child.kill("SIGKILL");
          return answered.size < enough;
        }),
      ),
    );
    assert.deepEqual(await exit, [null, "SIGKILL"]);
  }
  const charged = Array.from(readUsage(data), (row) => row.requestId);
  assert.equal(new Set(charged).size, charged.length, "a request was charged twice");
  const missing = [...answered].filter((id) => !charged.includes(id));
  assert.deepEqual(missing, []);
  assert.ok(charged.length <= answered.size + rounds * 24, `${charged.length} charges`);
});

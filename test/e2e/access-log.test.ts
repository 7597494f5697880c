import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { spawnGateway } from "./gateway-process.ts";

const pipeline = `
version: 1
server: { host: 127.0.0.1, port: "\${PORT}", drainDelaySeconds: 0 }
admin: { host: 127.0.0.1, port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
upstreams: { none: { urls: "http://127.0.0.1:9" } }
unmatched: [{ access-log: { file: access.log } }]
routes:
  - { path: /a, methods: [GET], to: { forward: { upstream: none } } }
`;

test("after SIGTERM, every line of the access log is in the file and complete", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "sluice-access-log-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const configFile = join(folder, "pipeline.yaml");
  await writeFile(configFile, pipeline);
  const gateway = await spawnGateway(configFile, { DATA_DIR: join(folder, "data") });
  t.after(() => gateway.child.kill("SIGKILL"));
  for (let i = 0; i < 300; i++) await (await fetch(`${gateway.url}/${i}`)).text();
  gateway.child.kill("SIGTERM");
  assert.deepEqual(await gateway.exited, [0, null]);
  const text = await readFile(join(folder, "access.log"), "utf8");
  const paths = text
    .split("\n")
    .slice(0, -1)
    .map((line) => (JSON.parse(line) as { path: string }).path);
  assert.deepEqual(
    paths,
    Array.from({ length: 300 }, (_, i) => `/${i}`),
  );
});

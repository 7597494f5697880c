/** The export of usage to billing with whole gateways, one of which is killed in the middle of a batch. */
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { startSink, type Event } from "./billing-sink.ts";
import { sluice, spawnGateway } from "./gateway-process.ts";

const pipeline = (sink: string): string => `version: 1
server: { port: "\${PORT}", drainDelaySeconds: 0 }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
log: { level: silent }
metering: { export: { url: "${sink}", every: 20ms, batch: 7, headers: { authorization: "Bearer sink" } } }
routes:
  - path: /call
    methods: [GET]
    run: [request-id, authenticate, { authorize: { require: key } }, { meter: { price: 5 } }]
    to: discovery
`;

test(
  "a gateway that is killed during a batch loses no charge, and the next gateway continues the export",
  { timeout: 60_000 },
  async () => {
    await using sink = await startSink();
    const folder = await mkdtemp(join(tmpdir(), "sluice-export-"));
    try {
      const file = join(folder, "pipeline.yaml");
      const env = { DATA_DIR: join(folder, "data") };
      await writeFile(file, pipeline(sink.url));
      const { id } = JSON.parse(
        sluice(
          [
            "workspaces",
            "create",
            "--name",
            "W",
            "--plan",
            "enterprise",
            "--json",
            "--config",
            file,
          ],
          env,
        ),
      ) as { id: string };
      const { key } = JSON.parse(
        sluice(["keys", "create", "--workspace", id, "--json", "--config", file], env),
      ) as { key: string };
      const call = async (url: string, count: number): Promise<void> => {
        const headers = { authorization: `Bearer ${key}` };
        for (let n = 0; n < count; n++) {
          const answer = await fetch(`${url}/call`, { headers });
          assert.equal(answer.status, 200);
          await answer.arrayBuffer();
        }
      };
      const ids = (): string[] => sink.batches.flat().map((event) => event.id);

      const first = await spawnGateway(file, env);
      await call(first.url, 30);
      await sink.until(() => new Set(ids()).size === 30);
      sink.mode.answers = false;
      const before = sink.batches.length;
      await call(first.url, 20);
      await sink.until(() => sink.batches.length > before);
      first.child.kill("SIGKILL");
      await first.exited;

      sink.mode.answers = true;
      const second = await spawnGateway(file, env);
      await sink.until(() => new Set(ids()).size === 50);
      await call(second.url, 25);
      await sink.until(() => new Set(ids()).size === 75);
      second.child.kill("SIGTERM");
      assert.deepEqual(await second.exited, [0, null]);

      const third = await spawnGateway(file, env);
      await call(third.url, 1);
      await sink.until(() => new Set(ids()).size === 76);
      third.child.kill("SIGTERM");
      await third.exited;

      const charges = sluice(["usage", "export", "--config", file], env)
        .trim()
        .split("\n")
        .map((line) => (JSON.parse(line) as Event).id);
      assert.equal(charges.length, 76);
      const inOrder = [...new Set(ids())];
      assert.deepEqual(inOrder, charges);
      // Only the batch that was in flight may have been sent twice.
      assert.ok(ids().length - 76 <= 7, `${ids().length - 76} came twice`);
      assert.ok(sink.batches.every((batch) => batch.length <= 7));
      assert.ok(sink.batches.flat().every(({ source }) => source === "sluice"));
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  },
);

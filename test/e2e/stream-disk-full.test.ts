/** The encrypted stream on a full disk: a request that cannot be charged is not forwarded, and no session hangs. */
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { startEnclaveWorker } from "../plugins/confidential/confidential-relay/enclave-worker.ts";
import {
  openStream,
  openWire,
  type OpenStream,
} from "../plugins/confidential/confidential-relay/stream-client.ts";
import { pipeline } from "../plugins/confidential/confidential-relay/stream-gateway.ts";
import { limitFiles, sluice, spawnGateway, withoutPrlimit } from "./gateway-process.ts";

test(
  "while the disk is full, the last frame of a request is not forwarded and the session ends with one error; sessions work again when there is room",
  { skip: withoutPrlimit },
  async () => {
    await using worker = await startEnclaveWorker();
    const folder = await mkdtemp(join(tmpdir(), "sluice-full-"));
    const started: Awaited<ReturnType<typeof spawnGateway>>[] = [];
    try {
      const file = join(folder, "pipeline.yaml");
      const env = {
        DATA_DIR: join(folder, "data"),
        WORKER_URL: worker.url,
        ROOT: worker.root,
        ORIGIN: "https://app.example",
      };
      await writeFile(file, pipeline);
      const make = (...args: string[]): { id: string; key: string } =>
        // Both commands print this with --json.
        JSON.parse(sluice([...args, "--json", "--config", file], env)) as {
          id: string;
          key: string;
        };
      const { id } = make("workspaces", "create", "--name", "full", "--plan", "enterprise");
      const { key } = make("keys", "create", "--workspace", id);
      const gateway = await spawnGateway(file, env);
      started.push(gateway);
      const open = async (): Promise<OpenStream> => {
        const url = `${gateway.url}/v1/confidential/stream`;
        return openStream(await openWire(url, { headers: { authorization: `Bearer ${key}` } }));
      };
      let answered = 0;
      /** Undefined if the request was answered and billed. */
      const ask = async (session: OpenStream): Promise<unknown> => {
        session.ask();
        for (;;) {
          const message = await session.next();
          if ("binary" in message) continue;
          // Every text frame is a JSON object.
          const { type, code } = JSON.parse(message.text) as { type: string; code: string };
          if (type === "done") answered++;
          return type === "done" ? undefined : [code, await session.closed];
        }
      };
      const refused = ["UPSTREAM_FAILED", 1011];
      {
        // Each session makes one request. While the disk is full, no new session can be opened.
        using sessions = new DisposableStack();
        const next = await Promise.all(Array.from({ length: 20 }, () => open()));
        for (const session of next) sessions.use(session);
        const askNext = async (): Promise<unknown> => ask(next.pop()!);
        assert.equal(await askNext(), undefined);
        limitFiles(gateway.child.pid!, "1");
        // The first requests may still find room in an existing file.
        let result = await askNext();
        while (result === undefined && next.length > 1) result = await askNext();
        assert.deepEqual(result, refused);
        const before = worker.requests.length;
        assert.deepEqual(await askNext(), refused);
        assert.equal(worker.requests.length, before, "what cannot be charged is not even asked");
        // The id of a new session cannot be stored.
        await assert.rejects(open(), /ATTESTATION_UNAVAILABLE/);
      }
      limitFiles(gateway.child.pid!, "unlimited");
      const deadline = AbortSignal.timeout(20_000);
      for (;;) {
        deadline.throwIfAborted();
        using session = await open().catch(() => undefined);
        if (session !== undefined && (await ask(session)) === undefined) break;
      }
      gateway.child.kill("SIGTERM");
      assert.deepEqual(await gateway.exited, [0, null]);
      const charged = sluice(["usage", "export", "--config", file], env).trim().split("\n");
      assert.ok(charged.length >= answered && answered >= 2, `${charged.length} of ${answered}`);
    } finally {
      for (const { child } of started) child.kill("SIGKILL");
      await rm(folder, { recursive: true, force: true });
    }
  },
);

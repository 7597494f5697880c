import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { TestKey } from "../../plugins/contracts/testing.ts";
import { makeKey, sluice, sourceMain, spawnGateway } from "../../test/e2e/gateway-process.ts";
import type { ChargeRow } from "./charge-comparison.ts";

export const drainSeconds = 5;

export interface SoakedGateway extends AsyncDisposable {
  readonly url: string;
  readonly adminUrl: string;
  readonly pid: number;
  readonly folder: string;
  readonly key: TestKey;
  /** A key that only the encrypted sessions use. */
  readonly sessionKey: TestKey;
  readonly exited: Promise<number | NodeJS.Signals>;
  /** Undefined while the process runs. */
  readonly ended: number | NodeJS.Signals | undefined;
  /** The last log lines at level error or above, and what was written to standard error. */
  readonly complaints: readonly string[];
  reload(): Promise<void>;
  signal(name: NodeJS.Signals): void;
  /** Returns the output of `sluice usage export`, also after the process has ended. */
  charges(): readonly ChargeRow[];
}

export interface Backends {
  readonly nodeUrl: string;
  readonly modelUrl: string;
  readonly workerUrl: string;
  readonly workerRoot: string;
  /** Number of threads of the gateway. Encrypted streams need one. */
  readonly threads: number;
}

const encryptedNetwork = (backends: Backends): string => `  alpha:
    kind: enclave
    url: "${backends.workerUrl}"
    price_per_token_nano: "12"
    evidence: { kind: simulated, roots: ["${backends.workerRoot}"] }
`;

const encryptedRoute = `  - path: /v1/confidential/stream
    websocket: true
    run: [{ use: inference }]
    to: { confidential-stream: { origins: [] } }
`;

const pipeline = (generation: number, backends: Backends): string => `# Generation ${generation}.
version: 1
server: { host: 127.0.0.1, port: "\${PORT}", threads: ${backends.threads}, drainSeconds: ${drainSeconds}, drainDelaySeconds: 0 }
admin: { host: 127.0.0.1, port: "\${ADMIN_PORT}" }
store: { data: ./data }
log: { level: error }
plans: { enterprise: { rps: 100000, includedCu: 1000000000000 } }
rate: "0.25"
upstreams:
  ledger: { urls: "${backends.nodeUrl}" }
networks:
  classic: { kind: openai, url: "${backends.modelUrl}", price_per_token_nano: "12" }
${backends.threads === 1 ? encryptedNetwork(backends) : ""}tools: [{ ledger-tools: { upstream: ledger } }, gateway-batch]
lists:
  edge: [request-id, authenticate, rate-limit]
  agents: [{ use: edge }, { authorize: { require: key } }, meter]
  inference: [{ use: edge }, { authorize: { require: inference } }, meter]
unmatched: [request-id, rate-limit]
routes:
  - path: /v1/ledger/rpc
    methods: [POST]
    run: [{ use: edge }, { authorize: { require: "ledger:read" } }, meter]
    to: { ledger-rpc: { upstream: ledger } }
  - { path: /rpc, methods: [POST], run: [{ use: agents }], to: tool-rpc }
  - { path: /mcp, methods: [POST, DELETE], run: [{ use: agents }], to: mcp }
  - { path: /v1/chat/completions, methods: [POST], run: [{ use: inference }], to: chat }
  - { path: /v1/models, methods: [GET], run: [{ use: edge }, { authorize: { require: "platform:read" } }], to: models }
${backends.threads === 1 ? encryptedRoute : ""}`;

export async function startSoakedGateway(backends: Backends): Promise<SoakedGateway> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-soak-"));
  const file = join(folder, "pipeline.yaml");
  let generation = 1;
  await writeFile(file, pipeline(generation, backends));
  const capabilities = ["ledger:read", "inference", "platform:read"] as const;
  const makeSoakKey = () => makeKey(join(folder, "data"), capabilities);
  const [key, sessionKey] = [await makeSoakKey(), await makeSoakKey()];
  const complaints: string[] = [];
  const keep = (line: string): void => {
    complaints.push(line);
    if (complaints.length > 50) complaints.shift();
  };
  const { url, adminUrl, child, ...started } = await spawnGateway(
    file,
    {},
    {
      onLine: (line) => {
        if (/"level":(50|60)/.test(line)) keep(line);
      },
      command: sourceMain,
    },
  );
  createInterface({ input: child.stderr! }).on("line", keep);
  let ended: number | NodeJS.Signals | undefined;
  const exited = started.exited.then(([code, signal]) => {
    // One of the two is set.
    ended = (code ?? signal) as number | NodeJS.Signals;
    return ended;
  });
  return {
    url,
    adminUrl,
    pid: child.pid ?? 0,
    folder,
    key,
    sessionKey,
    exited,
    get ended() {
      return ended;
    },
    complaints,
    async reload() {
      await writeFile(file, pipeline(++generation, backends));
      child.kill("SIGHUP");
    },
    signal: (name) => void child.kill(name),
    charges: () =>
      sluice(["usage", "export", "--config", file], {})
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line) as ChargeRow),
    async [Symbol.asyncDispose]() {
      if (ended === undefined) child.kill("SIGKILL");
      await exited;
      await rm(folder, { recursive: true, force: true });
    },
  };
}

export interface WorkerProcess extends AsyncDisposable {
  readonly url: string;
  readonly simulatedRoot: string;
}

export async function startWorkerProcess(modelUrl: string, model: string): Promise<WorkerProcess> {
  const args = ["worker", "--upstream", modelUrl, "--model", model, "--network", "alpha"];
  const more = ["--listen", "127.0.0.1:0", "--evidence", "simulated", "--json"];
  const child = spawn(process.execPath, [sourceMain, ...args, ...more], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  const exited = once(child, "exit");
  const lines = createInterface({ input: child.stdout });
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  lines.on("line", (line) => {
    if (line.startsWith('{"url"')) resolve(line);
  });
  void exited.then(() => reject(new Error("the worker ended")));
  const ready = JSON.parse(await promise) as { url: string; simulated_root: string };
  return {
    url: ready.url,
    simulatedRoot: ready.simulated_root,
    async [Symbol.asyncDispose]() {
      child.kill();
      await exited;
    },
  };
}

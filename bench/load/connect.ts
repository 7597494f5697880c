/**
 * Measures `sluice connect` beside a gateway whose workers get plain text, and then the time to the first token beside
 * that of `sluice-gateway/client`, which uses the same gateway and enclave directly. The measured process runs on core
 * 0. The clients, the model, the enclave and the gateway that relays to it share core 1, so use few streams.
 *
 *   node bench/load/connect.ts [--seconds 8] [--streams 20] [--rounds 3]
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { connect } from "../../plugins/confidential/client/client.ts";
import { runStreams, type StreamsResult } from "./chat-client.ts";
import { chatPipeline, pipeline } from "./pipelines.ts";
import { startPeer } from "./process.ts";
import { builtSluice, startSluice, type StartedSluice } from "./start-sluice.ts";
import { median, table } from "./table.ts";

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "8" },
    streams: { type: "string", default: "20" },
    rounds: { type: "string", default: "3" },
  },
});
const seconds = Number(values.seconds);
const streams = Number(values.streams);
const tokens = 50;
const model = "Bench/Echo-1";
const sluice = builtSluice();
const folder = mkdtempSync(join(tmpdir(), "sluice-bench-"));

interface Figures {
  readonly result: StreamsResult;
  readonly microsPerToken: number;
  readonly rssMiB: number;
  readonly readyMs: number;
}

try {
  await run();
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function run(): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const mock = [process.execPath, join(import.meta.dirname, "mock-model.ts")];
  const upstream = await startPeer(mock, { core: 1 });
  stack.use(upstream);
  const url = `http://127.0.0.1:${upstream.port}`;
  const encrypted = await startRelay(stack, url);
  const starts = { plain: startPlain(url), connect: startConnect(encrypted) };
  const figures = { plain: [] as Figures[], connect: [] as Figures[] };
  // The first start of each makes the compiled code that the next ones use.
  for (let round = -1; round < Number(values.rounds); round++) {
    for (const name of ["plain", "connect"] as const) {
      const found = await measure(starts[name]);
      if (round >= 0) figures[name].push(found);
    }
  }
  print(figures.plain, figures.connect);
  await printFirstTokens(encrypted, starts.connect);
}

type Start = () => Promise<Pick<StartedSluice, "peer" | "key" | "readyMs">>;

async function measure(start: Start): Promise<Figures> {
  const { peer, key, readyMs } = await start();
  await using _ = peer;
  const options = {
    port: peer.port,
    api: "chat" as const,
    headers: [`authorization: Bearer ${key}`],
    tokens,
    isBatched: true,
  };
  await runStreams({ ...options, streams: 10, seconds: 2 });
  const before = peer.cpuMicros();
  const result = await runStreams({ ...options, streams, seconds });
  if (result.completed < result.started) throw new Error(JSON.stringify(result.faults));
  const microsPerToken = (peer.cpuMicros() - before) / result.tokens;
  return { result, microsPerToken, rssMiB: peer.rssMiB(), readyMs };
}

function startPlain(upstream: string): Start {
  const own = join(folder, "plain");
  return () => startSluice(chatPipeline({}, own, upstream), own, 0);
}

interface Relay {
  readonly url: string;
  readonly key: string;
  readonly simulatedRoot: string;
}

async function startRelay(stack: AsyncDisposableStack, upstream: string): Promise<Relay> {
  const kind = ["--network", "bench", "--evidence", "simulated", "--listen", "127.0.0.1:0"];
  const command = [
    ...sluice,
    "worker",
    "--upstream",
    upstream,
    "--model",
    model,
    ...kind,
    "--json",
  ];
  const worker = await startPeer(command, { core: 1 });
  stack.use(worker);
  // `sluice worker --json` prints this.
  const enclave = JSON.parse(worker.line) as Record<
    "url" | "status_url" | "simulated_root",
    string
  >;
  const roots = [enclave.simulated_root];
  const network = {
    kind: "enclave",
    url: enclave.url,
    status: { url: enclave.status_url },
    price_per_token_nano: "12",
    evidence: { kind: "simulated", roots },
  };
  const own = join(folder, "relay");
  const sections = { networks: { bench: network }, rate: "0.05" };
  const to = { path: "/v1/confidential/stream", websocket: true, to: "confidential-stream" };
  const text = pipeline({ folder: own, require: "inference", sections, route: to });
  const parsed = JSON.parse(text) as { readonly routes: readonly object[] };
  const models = { path: "/v1/models", methods: ["GET"], run: ["authenticate"], to: "models" };
  const whole = JSON.stringify({ ...parsed, routes: [...parsed.routes, models] });
  const { peer, key } = await startSluice(whole, own, 1);
  stack.use(peer);
  return { url: `http://127.0.0.1:${peer.port}`, key, simulatedRoot: enclave.simulated_root };
}

function startConnect({ url, key: apiKey, simulatedRoot }: Relay): Start {
  const trust = ["--allow-simulated", "--simulated-root", simulatedRoot];
  const target = [url, "--key", apiKey, "--model", model];
  return async () => {
    const args = [...sluice, "connect", ...target, ...trust, "--port", "0", "--json"];
    const begun = performance.now();
    const peer = await startPeer(args, { core: 0 });
    const readyMs = performance.now() - begun;
    return { peer, readyMs, key: (JSON.parse(peer.line) as { readonly key: string }).key };
  };
}

async function printFirstTokens(relay: Relay, start: Start): Promise<void> {
  const { peer, key } = await start();
  await using _ = peer;
  const session = await connect({
    url: relay.url,
    apiKey: relay.key,
    network: "bench",
    model,
    allowSimulated: true,
    simulatedRoots: [relay.simulatedRoot],
  });
  const direct: number[] = [];
  const connected: number[] = [];
  for (let turn = 0; turn < 20; turn++) {
    const headers = [`authorization: Bearer ${key}`];
    const load = { port: peer.port, api: "chat" as const, headers, tokens: 5, isBatched: true };
    const { p50 } = await runStreams({ ...load, streams: 1, seconds: 0.5 });
    connected.push(p50);
    const asked = performance.now();
    const messages = [{ role: "user", content: "Hi" }];
    const answer = session.chat({ messages, max_tokens: 5 });
    for await (const _delta of answer) {
      direct.push(performance.now() - asked);
      break;
    }
    await answer.final.catch(() => {});
  }
  await session.close();
  const [client, connects] = [direct, connected].map((list) => median(list).toFixed(2));
  console.log(`first token p50, ms: client ${client}, connect ${connects}`);
}

function print(plain: readonly Figures[], connected: readonly Figures[]): void {
  const rows: [string, (figures: Figures) => number][] = [
    ["CPU per token, µs", ({ microsPerToken }) => microsPerToken],
    ["first token p50, ms", ({ result }) => result.p50],
    ["RSS after the load, MiB", ({ rssMiB }) => rssMiB],
    ["from start to ready, ms", ({ readyMs }) => readyMs],
  ];
  const cells = rows.map(([title, of]) => {
    const [a, b] = [median(plain.map(of)), median(connected.map(of))];
    return [title, ...[a, b, b / a, b - a].map((figure) => figure.toFixed(2))];
  });
  console.log(table([`${streams} streams`, "plain", "connect", "ratio", "difference"], cells));
}

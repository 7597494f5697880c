/**
 * Measures subscriptions of many clients: memory of a connection, subscriptions at the node, CPU per notification
 * per client (beside a bare relay with `ws` in the same run), and the time until all clients get notifications of another
 * node after the loss of the first one. The gateway runs on core 0. The nodes and the clients share core 1.
 *
 *   npm run bench -- --follow
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { WebSocket } from "ws";
import { pipeline } from "../load/pipelines.ts";
import { startPeer, type Peer } from "../load/process.ts";
import { startSluice, type StartedSluice } from "../load/start-sluice.ts";
import { BenchNode, kinds, type Kind } from "./node.ts";

const clientCount = 1_000;
const blocks = 20;
const here = import.meta.dirname;

class Client {
  readonly socket: WebSocket;
  readonly opened: Promise<void>;
  readonly #request: string;
  received = 0;
  /** Number of follows that have begun. */
  begun = 0;

  constructor(url: string, key: string, { request }: Kind) {
    this.#request = request;
    const headers = { authorization: `Bearer ${key}` };
    this.socket = new WebSocket(url, { headers, perMessageDeflate: false });
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.opened = promise;
    this.socket.once("open", resolve);
    this.socket.once("error", reject);
    this.socket.on("message", (data) => this.#message(data as Buffer));
  }

  subscribe(): void {
    this.socket.send(this.#request);
  }

  #message(data: Buffer): void {
    if (data.includes('"error"')) throw new Error(`refused: ${data.toString()}`);
    if (!data.includes('"params"')) return;
    this.received++;
    if (data.includes('"initialized"')) this.begun++;
    if (data.includes('{"event":"stop"}')) this.subscribe();
  }
}

interface Figures {
  /** Memory of a connection without a subscription, and with one. */
  readonly kibPerIdle: number;
  readonly kibPerSubscriber: number;
  readonly atNode: number;
  readonly microsPerNotification: number;
  /** Time until all clients have their first notification, at the start and after the loss of the node. */
  readonly beginMs: number;
  readonly moveMs: number | undefined;
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await sleep(5);
}

interface Target {
  readonly peer: Peer;
  readonly key: string;
  readonly nodes: readonly BenchNode[];
  readonly kind: Kind;
}

async function connect({ peer, key, kind }: Target, count: number): Promise<readonly Client[]> {
  const clients: Client[] = [];
  while (clients.length < count) {
    const some = Array.from(
      { length: 50 },
      () => new Client(`ws://127.0.0.1:${peer.port}/v1/ledger/rpc`, key, kind),
    );
    await Promise.all(some.map(({ opened }) => opened));
    clients.push(...some);
  }
  return clients;
}

async function measure(target: Target): Promise<Figures> {
  const { peer, nodes, kind } = target;
  // The first connections load code and warm it up.
  for (const { socket } of await connect(target, 100)) socket.terminate();
  await sleep(3_000);
  const before = peer.rssMiB();
  const clients = await connect(target, clientCount);
  await sleep(3_000);
  const kibPerClient = (): number => ((peer.rssMiB() - before) * 1024) / clientCount;
  const kibPerIdle = kibPerClient();

  const begin = performance.now();
  for (const client of clients) client.subscribe();
  await until(() => clients.every(({ received }) => received === kind.firstNotifications));
  const beginMs = performance.now() - begin;
  await sleep(3_000);
  const kibPerSubscriber = kibPerClient();
  const atNode = nodes.reduce((sum, node) => sum + node.subscriptions, 0);
  const run = async (): Promise<number> => {
    const each = blocks * kind.notificationsPerBlock;
    const wanted = clients.map(({ received }) => received + each);
    const cpu = peer.cpuMicros();
    for (let block = 0; block < blocks; block++) {
      for (const node of nodes) node.advance();
      await sleep(100);
    }
    await until(() => clients.every(({ received }, at) => received >= (wanted[at] ?? 0)));
    return (peer.cpuMicros() - cpu) / (clientCount * each);
  };
  await run();
  const microsPerNotification = Math.min(await run(), await run());

  const lost = nodes.find((node) => node.subscriptions > 0);
  const other = nodes.find((node) => node !== lost);
  let moveMs: number | undefined;
  if (other !== undefined && lost !== undefined) {
    const counts = clients.map(({ received }) => received);
    const start = performance.now();
    await lost.stop();
    other.advance();
    const hasMoved = ({ begun, received }: Client, at: number): boolean =>
      begun === 0 ? received > (counts[at] ?? 0) : begun === 2;
    await until(() => clients.every(hasMoved));
    moveMs = performance.now() - start;
  }
  for (const { socket } of clients) socket.terminate();
  return { kibPerIdle, kibPerSubscriber, atNode, microsPerNotification, beginMs, moveMs };
}

/** Starts a gateway with `ledger-ws` in front of nodes, on core 0. */
export function startGateway(folder: string, nodes: readonly BenchNode[]): Promise<StartedSluice> {
  const ledger = { urls: nodes.map(({ url }) => url) };
  const ws = { upstream: "ledger", connectionsPerKey: 10_000, followsPerKey: 10_000 };
  const route = { path: "/v1/ledger/rpc", websocket: true, to: { "ledger-ws": ws } };
  const sections = { upstreams: { ledger } };
  return startSluice(pipeline({ folder, require: "ledger:read", sections, route }), folder, 0);
}

async function measureSluice(kind: Kind): Promise<Figures> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-bench-"));
  const nodes = [await BenchNode.start(), await BenchNode.start()];
  const { peer, key } = await startGateway(folder, nodes);
  try {
    return await measure({ peer, key, nodes, kind });
  } finally {
    await peer[Symbol.asyncDispose]();
    for (const node of nodes) await node.stop().catch(() => {});
    rmSync(folder, { recursive: true });
  }
}

async function measureRelay(name: string, kind: Kind): Promise<Figures> {
  const node = await BenchNode.start();
  const command = [process.execPath, join(here, "relay.ts"), node.url, name];
  const peer = await startPeer(command, { core: 0 });
  try {
    return await measure({ peer, key: "", nodes: [node], kind });
  } finally {
    await peer[Symbol.asyncDispose]();
    await node.stop();
  }
}

function print(name: string, figures: Figures): void {
  const { kibPerIdle, kibPerSubscriber, atNode, microsPerNotification, beginMs, moveMs } = figures;
  const move = moveMs === undefined ? "" : `, after a move ${moveMs.toFixed(0)} ms`;
  console.log(
    `${name}: idle ${kibPerIdle.toFixed(1)} KiB per connection, with a subscription ` +
      `${kibPerSubscriber.toFixed(1)} KiB, ${atNode} subscriptions at the node, ` +
      `${microsPerNotification.toFixed(1)} µs of CPU per notification per client, ` +
      `all clients started after ${beginMs.toFixed(0)} ms${move}`,
  );
}

export async function measureFollows(): Promise<void> {
  for (const [name, kind] of Object.entries(kinds)) {
    print(`${name}, bare relay with ws`, await measureRelay(name, kind));
    print(`${name}, sluice`, await measureSluice(kind));
  }
}

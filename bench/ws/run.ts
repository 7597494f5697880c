/**
 * Measures `chainHead_v1_follow` for many clients: memory of an idle connection, follows at the node, CPU per event per
 * client (beside a bare relay with `ws` in the same run), and the time until all clients follow another node after the
 * loss of the first one. The gateway runs on core 0. The nodes and the clients share core 1.
 *
 *   npm run bench -- --follow
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { WebSocket } from "ws";
import { startPeer, type Peer } from "../load/process.ts";
import { startGateway } from "./gateway.ts";
import { BenchNode } from "./node.ts";

const clientCount = 1_000;
const blocks = 20;
const eventsPerBlock = 3;
const here = import.meta.dirname;
const follow = '{"jsonrpc":"2.0","id":1,"method":"chainHead_v1_follow","params":[true]}';

class Client {
  readonly socket: WebSocket;
  readonly opened: Promise<void>;
  events = 0;
  /** Number of follows that have begun. */
  begun = 0;

  constructor(url: string, key: string) {
    const headers = { authorization: `Bearer ${key}` };
    this.socket = new WebSocket(url, { headers, perMessageDeflate: false });
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.opened = promise;
    this.socket.once("open", resolve);
    this.socket.once("error", reject);
    this.socket.on("message", (data) => this.#message(data as Buffer));
  }

  #message(data: Buffer): void {
    if (data.includes('"error"')) throw new Error(`a follow was refused: ${data.toString()}`);
    if (!data.includes('"params"')) return;
    this.events++;
    if (data.includes('"initialized"')) this.begun++;
    if (data.includes('{"event":"stop"}')) this.socket.send(follow);
  }
}

interface Figures {
  readonly name: string;
  readonly kibPerIdle: number;
  readonly follows: number;
  readonly microsPerEvent: number;
  /** Time until all clients follow, at the start and after the loss of the node. */
  readonly beginMs: number;
  readonly moveMs: number | undefined;
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await sleep(5);
}

async function connect(peer: Peer, key: string, count: number): Promise<readonly Client[]> {
  const clients: Client[] = [];
  while (clients.length < count) {
    const some = Array.from(
      { length: 50 },
      () => new Client(`ws://127.0.0.1:${peer.port}/v1/ledger/rpc`, key),
    );
    await Promise.all(some.map(({ opened }) => opened));
    clients.push(...some);
  }
  return clients;
}

async function measure(
  name: string,
  peer: Peer,
  nodes: readonly BenchNode[],
  key: string,
): Promise<Figures> {
  // The first connections load code and warm it up.
  for (const { socket } of await connect(peer, key, 100)) socket.terminate();
  await sleep(3_000);
  const before = peer.rssMiB();
  const clients = await connect(peer, key, clientCount);
  await sleep(3_000);
  const kibPerIdle = ((peer.rssMiB() - before) * 1024) / clientCount;

  const begin = performance.now();
  for (const { socket } of clients) socket.send(follow);
  await until(() => clients.every(({ begun }) => begun === 1));
  const beginMs = performance.now() - begin;
  const follows = nodes.reduce((sum, node) => sum + node.follows, 0);
  const run = async (): Promise<number> => {
    const wanted = clients.map(({ events }) => events + blocks * eventsPerBlock);
    const cpu = peer.cpuMicros();
    for (let block = 0; block < blocks; block++) {
      for (const node of nodes) node.advance();
      await sleep(100);
    }
    await until(() => clients.every(({ events }, at) => events >= (wanted[at] ?? 0)));
    return (peer.cpuMicros() - cpu) / (clientCount * blocks * eventsPerBlock);
  };
  await run();
  const microsPerEvent = Math.min(await run(), await run());

  const lost = nodes.find((node) => node.follows > 0);
  let moveMs: number | undefined;
  if (nodes.length > 1 && lost !== undefined) {
    const start = performance.now();
    await lost.stop();
    await until(() => clients.every(({ begun }) => begun === 2));
    moveMs = performance.now() - start;
  }
  for (const { socket } of clients) socket.terminate();
  return { name, kibPerIdle, follows, microsPerEvent, beginMs, moveMs };
}

async function measureSluice(folder: string): Promise<Figures> {
  const nodes = [await BenchNode.start(), await BenchNode.start()];
  const { peer, key } = await startGateway(folder, nodes);
  try {
    return await measure("sluice", peer, nodes, key);
  } finally {
    await peer[Symbol.asyncDispose]();
    for (const node of nodes) await node.stop().catch(() => {});
  }
}

async function measureRelay(): Promise<Figures> {
  const node = await BenchNode.start();
  const peer = await startPeer([process.execPath, join(here, "relay.ts"), node.url], { core: 0 });
  try {
    return await measure("bare relay with ws", peer, [node], "");
  } finally {
    await peer[Symbol.asyncDispose]();
    await node.stop();
  }
}

export async function measureFollows(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-bench-"));
  try {
    for (const each of [await measureRelay(), await measureSluice(folder)]) {
      const move = each.moveMs === undefined ? "" : `, after a move ${each.moveMs.toFixed(0)} ms`;
      console.log(
        `${each.name}: idle ${each.kibPerIdle.toFixed(1)} KiB per connection, ${each.follows} follows at the node, ` +
          `${each.microsPerEvent.toFixed(2)} µs of CPU per event per client, ` +
          `all follow after ${each.beginMs.toFixed(0)} ms${move}`,
      );
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/**
 * Measures reads of `archive_v1_storage`, 20,000 items at a time: items per second, and CPU per item, through the
 * gateway and through a bare relay with `ws`. The gateway and the relay run on core 0. The node and the clients share
 * core 1.
 *
 *   npm run bench -- --archive
 */
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { WebSocket } from "ws";
import { startPeer, type Peer } from "../load/process.ts";
import { BenchNode, itemsPerRead } from "./node.ts";
import { startGateway } from "./run.ts";

const clientCount = 4;
const warmUps = 1;
const rounds = 3;
const maxRoundMs = 20_000;
const read = `{"jsonrpc":"2.0","id":1,"method":"archive_v1_storage","params":["0x${"11".repeat(32)}",[{"key":"0x","type":"descendantsValues"}],null]}`;

interface Round {
  readonly itemsPerSecond: number;
  readonly microsPerItem: number;
}

/** Rejects if the read ends with anything but `storageDone`. */
async function readAll(socket: WebSocket): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let items = 0;
  const onMessage = (data: Buffer): void => {
    if (data.includes('"event":"storage"')) items++;
    else if (data.includes('"event":"storageDone"') && items === itemsPerRead) resolve();
    else if (!data.includes('"result":"')) reject(new Error(`unexpected: ${data.toString()}`));
  };
  const onClose = (code: number): void => reject(new Error(`closed with ${code}`));
  const timeout = setTimeout(() => reject(new Error("the read takes too long")), maxRoundMs);
  socket.on("message", onMessage);
  socket.once("close", onClose);
  try {
    socket.send(read);
    await promise;
  } finally {
    clearTimeout(timeout);
    socket.off("message", onMessage);
    socket.off("close", onClose);
  }
}

async function measure(peer: Peer, key: string): Promise<readonly Round[]> {
  const headers = { authorization: `Bearer ${key}` };
  const url = `ws://127.0.0.1:${peer.port}/v1/ledger/rpc`;
  const sockets: WebSocket[] = [];
  try {
    while (sockets.length < clientCount) {
      const socket = new WebSocket(url, { headers, perMessageDeflate: false });
      sockets.push(socket);
      await once(socket, "open");
    }
    const results: Round[] = [];
    for (let round = 0; round < warmUps + rounds; round++) {
      const cpu = peer.cpuMicros();
      const start = performance.now();
      await Promise.all(sockets.map(readAll));
      const items = clientCount * itemsPerRead;
      results.push({
        itemsPerSecond: (items * 1000) / (performance.now() - start),
        microsPerItem: (peer.cpuMicros() - cpu) / items,
      });
    }
    return results.slice(warmUps);
  } finally {
    for (const socket of sockets) socket.terminate();
  }
}

function print(name: string, results: readonly Round[]): void {
  const range = (values: readonly number[], digits: number): string =>
    `${Math.min(...values).toFixed(digits)} to ${Math.max(...values).toFixed(digits)}`;
  const speed = range(
    results.map(({ itemsPerSecond }) => itemsPerSecond),
    0,
  );
  const cpu = range(
    results.map(({ microsPerItem }) => microsPerItem),
    1,
  );
  console.log(`${name}: ${speed} items per second, ${cpu} µs of CPU per item`);
}

export async function measureArchiveReads(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-bench-"));
  const node = await BenchNode.start();
  try {
    const file = join(import.meta.dirname, "../load/peers/ws-relay.ts");
    {
      await using relay = await startPeer([process.execPath, file, node.url], { core: 0 });
      print("bare relay with ws", await measure(relay, ""));
    }
    const { peer, key } = await startGateway(folder, [node]);
    await using gateway = peer;
    print("sluice", await measure(gateway, key));
  } finally {
    await node.stop();
    rmSync(folder, { recursive: true });
  }
}

/**
 * Clients of the encrypted stream that cost little: whole handshakes, requests that are sealed, answers that are counted
 * and not opened. One process, whichever way leads to the enclave.
 */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { WebSocket } from "ws";
import type { Channel } from "../../src/confidential/channel.ts";
import { isFault, type Fault } from "../../src/confidential/fault.ts";
import { clientKeys, readAnswer } from "../../src/confidential/handshake.ts";
import { clientSubprotocol, writeHello, type Role } from "../../src/confidential/hello.ts";
import { createNodeChannel } from "../../src/confidential/node-channel.ts";
import { nodeSuite } from "../../src/confidential/node-crypto.ts";
import { readTextFrame } from "../../src/confidential/text-frames.ts";

export interface StreamLoad {
  readonly url: string;
  readonly key: string;
  readonly network: string;
  readonly model: string;
  readonly termination: Role;
  /** At once. */
  readonly sessions: number;
  readonly seconds: number;
  /** Chunks of an answer. */
  readonly chunks: number;
}

export interface FramesResult {
  /** Chunks and finals that came. */
  readonly frames: number;
  readonly requests: number;
  readonly seconds: number;
  /** Milliseconds from the enclave's sending to the client's receipt; NaN where the enclave does not say. */
  readonly p50: number;
  readonly p99: number;
}

export interface Opened {
  readonly socket: WebSocket;
  readonly channel: Channel;
}

const messages = [{ role: "user", content: "Say the same word again and again, please." }];

/** As many sessions as go, one after the other in each lane; how many a second. */
export async function handshakes(load: StreamLoad): Promise<number> {
  const ephemeral = await nodeSuite.createEphemeral();
  const hello = helloFor(load, ephemeral.publicKey);
  const begun = performance.now();
  const end = begun + load.seconds * 1000;
  let done = 0;
  const lane = async (): Promise<void> => {
    while (performance.now() < end) {
      const socket = await connectTo(load);
      socket.send(hello, { binary: false });
      const [data] = (await once(socket, "message")) as [Buffer];
      if (!data.includes('"attestation"')) throw new Error(data.toString());
      socket.close();
      await once(socket, "close");
      done++;
    }
  };
  await Promise.all(Array.from({ length: load.sessions }, lane));
  return (done * 1000) / (performance.now() - begun);
}

/** Sessions that ask again as soon as they are answered, begun evenly over the first answer. */
export async function frames(
  opened: readonly Opened[],
  { model, chunks, seconds: lasting }: StreamLoad,
): Promise<FramesResult> {
  const request = Buffer.from(JSON.stringify({ model, messages, max_tokens: chunks }));
  const latencies: number[] = [];
  const isTimed = model === "Bench/Paced-1";
  const answerMs = model === "Bench/Burst-1" ? 0 : chunks * 20;
  const { promise: done, resolve } = Promise.withResolvers<void>();
  let count = 0;
  let requests = 0;
  let running = opened.length;
  const begun = performance.now();
  const end = begun + lasting * 1000 - answerMs;
  for (const [index, { socket, channel }] of opened.entries()) {
    let rid = 0;
    const ask = (): void => {
      requests++;
      socket.send(sound(channel.seal("request", ++rid, request, true)));
    };
    socket.on("message", (data: Buffer, isBinary) => {
      if (isBinary) {
        count++;
        sound(channel.watch.observe("s2c", data));
        // On one machine both ends read the same clock.
        if (isTimed) {
          const sent = data.readBigUInt64LE(16);
          latencies.push(Number(process.hrtime.bigint() - sent) / 1e6);
        }
        return;
      }
      if (!data.includes('"report"')) throw new Error(data.toString());
      if (performance.now() < end) ask();
      else if (--running === 0) resolve();
    });
    socket.on("close", (code) => {
      if (running > 0) throw new Error(`a session ended: ${code}`);
    });
    setTimeout(ask, (index / opened.length) * answerMs);
  }
  await done;
  const seconds = (performance.now() - begun) / 1000;
  for (const { socket } of opened) socket.terminate();
  latencies.sort((a, b) => a - b);
  const at = (share: number): number => latencies[Math.floor(latencies.length * share)] ?? NaN;
  return { frames: count, requests, seconds, p50: at(0.5), p99: at(0.99) };
}

/** Opens sessions that ask nothing, a few at a time. */
export async function openAll(load: StreamLoad): Promise<readonly Opened[]> {
  const opened: Opened[] = [];
  let begun = 0;
  const lane = async (): Promise<void> => {
    while (begun++ < load.sessions) opened.push(await open(load));
  };
  await Promise.all(Array.from({ length: 8 }, lane));
  return opened;
}

async function open(load: StreamLoad): Promise<Opened> {
  const ephemeral = await nodeSuite.createEphemeral();
  const hello = helloFor(load, ephemeral.publicKey);
  const socket = await connectTo(load);
  socket.send(hello, { binary: false });
  const [data] = (await once(socket, "message")) as [Buffer];
  const answer = sound(readTextFrame(data));
  if (answer.kind !== "attestation") throw new Error(data.toString());
  const expected = { net: load.network, role: load.termination, now: Date.now() / 1000 };
  const attested = sound(await readAnswer(nodeSuite, hello, answer.core, answer.sig, expected));
  const keys = sound(await clientKeys(nodeSuite, ephemeral, attested));
  const channel = createNodeChannel({ end: "client", keys, th: attested.th, pad: 256 });
  return { socket, channel };
}

async function connectTo({ url, key }: StreamLoad): Promise<WebSocket> {
  const headers = { authorization: `Bearer ${key}` };
  const socket = new WebSocket(url, [clientSubprotocol], { headers, perMessageDeflate: false });
  await once(socket, "open");
  return socket;
}

function helloFor(load: StreamLoad, epk: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  return writeHello({
    network: load.network,
    model: load.model,
    maxOutputTokens: load.chunks,
    maxCoefficient: undefined,
    termination: load.termination,
    epk,
    nonce: new Uint8Array(randomBytes(32)),
    pad: 256,
    evidence: "full",
    known: [],
    freshness: "cached",
    idempotencyKey: undefined,
  });
}

function sound<T extends object>(value: T | Fault): T {
  if (isFault(value)) throw new Error(`${value.code}: ${value.message}`);
  return value;
}

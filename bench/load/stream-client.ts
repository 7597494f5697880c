/** A client of the encrypted stream. It verifies everything but the evidence, with little CPU. */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { WebSocket } from "ws";
import type { Channel } from "../../plugins/confidential/protocol/channel.ts";
import { isFault, type Fault } from "../../plugins/confidential/protocol/fault.ts";
import { clientKeys, readAnswer } from "../../plugins/confidential/protocol/handshake.ts";
import {
  clientSubprotocol,
  writeHello,
  type Role,
} from "../../plugins/confidential/protocol/hello.ts";
import { createNodeChannel } from "../../plugins/confidential/protocol/node-channel.ts";
import { nodeSuite } from "../../plugins/confidential/protocol/node-crypto.ts";
import { readTextFrame } from "../../plugins/confidential/protocol/text-frames.ts";

export interface Destination {
  readonly url: string;
  readonly key: string;
  readonly network: string;
  readonly model: string;
  readonly termination: Role;
  readonly tokens: number;
}

export interface ClientSession {
  readonly socket: WebSocket;
  readonly channel: Channel;
}

/** Throws if the answer does not attest this session. */
export async function openSession(to: Destination): Promise<ClientSession> {
  const ephemeral = await nodeSuite.createEphemeral();
  const hello = helloFor(to, ephemeral.publicKey);
  const { socket, data } = await sayHello(to, hello);
  const answer = unwrap(readTextFrame(data));
  if (answer.kind !== "attestation") throw new Error(data.toString());
  const expected = { net: to.network, role: to.termination, now: Date.now() / 1000 };
  const attested = unwrap(await readAnswer(nodeSuite, hello, answer.core, answer.sig, expected));
  const keys = unwrap(await clientKeys(nodeSuite, ephemeral, attested));
  const channel = createNodeChannel({ end: "client", keys, th: attested.th, pad: 256 });
  return { socket, channel };
}

export async function sayHello(
  { url, key }: Destination,
  hello: Uint8Array,
): Promise<{ readonly socket: WebSocket; readonly data: Buffer }> {
  const headers = { authorization: `Bearer ${key}` };
  const socket = new WebSocket(url, [clientSubprotocol], { headers, perMessageDeflate: false });
  await once(socket, "open");
  socket.send(hello, { binary: false });
  // The default `binaryType` gives Buffers.
  const [data] = (await once(socket, "message")) as [Buffer];
  return { socket, data };
}

/** `epk`: 32 bytes, the client's share of the key exchange. */
export function helloFor(to: Destination, epk: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  return writeHello({
    network: to.network,
    model: to.model,
    maxOutputTokens: to.tokens,
    maxCoefficient: undefined,
    termination: to.termination,
    epk,
    nonce: new Uint8Array(randomBytes(32)),
    pad: 256,
    evidence: "full",
    known: [],
    freshness: "cached",
    idempotencyKey: undefined,
  });
}

export function unwrap<T extends object>(value: T | Fault): T {
  if (isFault(value)) throw new Error(`${value.code}: ${value.message}`);
  return value;
}

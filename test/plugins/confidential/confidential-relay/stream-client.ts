/** A minimal client of the encrypted stream: it sends exactly the bytes that a test passes to it. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { WebSocket, type ClientOptions } from "ws";
import type { Channel } from "../../../../plugins/confidential/protocol/channel.ts";
import { isFault } from "../../../../plugins/confidential/protocol/fault.ts";
import type { Attested } from "../../../../plugins/confidential/protocol/handshake.ts";
import { clientSubprotocol, type Hello } from "../../../../plugins/confidential/protocol/hello.ts";
import {
  readTextFrame,
  type AttestationFrame,
} from "../../../../plugins/confidential/protocol/text-frames.ts";
import { model } from "./enclave-worker.ts";
import { prepare, secure } from "../enclave/client.ts";
import { unwrap } from "../protocol/session.ts";

export { unwrap };

type Message = { readonly text: string } | { readonly binary: Buffer };

export interface Wire extends Disposable {
  readonly socket: WebSocket;
  /** Returns the next message. If the connection closes first, the test fails. */
  next(): Promise<Message>;
  nextText(): Promise<Readonly<Record<string, unknown>>>;
  nextBinary(): Promise<Buffer>;
  readonly closed: Promise<number>;
}

export async function openWire(
  url: string,
  options: ClientOptions = {},
  protocols: readonly string[] = [clientSubprotocol],
): Promise<Wire> {
  const socket = new WebSocket(url.replace("http", "ws"), [...protocols], {
    perMessageDeflate: false,
    ...options,
  });
  const waiting: Message[] = [];
  let wake = (): void => {};
  let isClosed = false;
  socket.on("message", (data: Buffer, isBinary) => {
    waiting.push(isBinary ? { binary: data } : { text: data.toString() });
    wake();
  });
  const closed = new Promise<number>((resolve) => {
    socket.on("close", (code) => {
      isClosed = true;
      wake();
      resolve(code);
    });
  });
  await once(socket, "open");
  const next = async (): Promise<Message> => {
    for (;;) {
      const message = waiting.shift();
      if (message !== undefined) return message;
      assert.ok(!isClosed, "the connection closed before the next message");
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  };
  return {
    socket,
    next,
    async nextText() {
      const message = await next();
      assert.ok("text" in message, "expected a text frame");
      // Every text frame is a JSON object.
      return JSON.parse(message.text) as Readonly<Record<string, unknown>>;
    },
    async nextBinary() {
      const message = await next();
      assert.ok("binary" in message, `expected a binary frame, not ${JSON.stringify(message)}`);
      return message.binary;
    },
    closed,
    [Symbol.dispose]: () => socket.terminate(),
  };
}

export interface OpenStream extends Wire {
  readonly hello: Hello;
  readonly attestation: AttestationFrame;
  readonly attestationJson: Readonly<Record<string, unknown>>;
  readonly attested: Attested;
  readonly channel: Channel;
  ask(request?: object): void;
  answer(): Promise<StreamAnswer>;
}

export interface StreamAnswer {
  readonly deltas: readonly Readonly<Record<string, unknown>>[];
  readonly final: Readonly<Record<string, unknown>>;
  // Tests read what they expect to be there, and fail where it is not.
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly done: any;
}

export const helloOf = (over: Partial<Hello> = {}): ReturnType<typeof prepare> =>
  prepare({
    network: "alpha",
    model,
    maxOutputTokens: 100,
    nonce: new Uint8Array(randomBytes(32)),
    ...over,
  });

/** Sends a hello, and does not wait for its answer. */
export async function greet(wire: Wire, over: Partial<Hello> = {}): Promise<void> {
  wire.socket.send((await helloOf(over)).bytes, { binary: false });
}

/** Completes the handshake without a check of the evidence. */
export async function openStream(wire: Wire, over: Partial<Hello> = {}): Promise<OpenStream> {
  const prepared = await helloOf(over);
  const { hello } = prepared;
  wire.socket.send(prepared.bytes, { binary: false });
  const attestationJson = await wire.nextText();
  const attestation = readTextFrame(Buffer.from(JSON.stringify(attestationJson)));
  assert.ok(
    !isFault(attestation) && attestation.kind === "attestation",
    JSON.stringify(attestationJson),
  );
  const { attested, channel } = await secure(prepared, attestation, Date.now() / 1000);
  let rid = 0;
  return {
    ...wire,
    hello,
    attestation,
    attestationJson,
    attested,
    channel,
    ask(request = { model, messages: [{ role: "user", content: "Say hello" }] }) {
      const data = Buffer.from(JSON.stringify(request));
      wire.socket.send(unwrap(channel.seal("request", ++rid, data, true)));
    },
    async answer() {
      const deltas: Readonly<Record<string, unknown>>[] = [];
      for (;;) {
        const { header, data } = unwrap(channel.open(await wire.nextBinary()));
        // Every chunk and every final is a JSON object.
        const value = JSON.parse(Buffer.from(data).toString()) as Readonly<Record<string, unknown>>;
        if (header.type === "chunk") deltas.push(value);
        else return { deltas, final: value, done: await wire.nextText() };
      }
    },
  };
}

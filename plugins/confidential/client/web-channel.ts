/**
 * The encrypted channel with WebCrypto. Calls may overlap; they run in the order in which they were made, and their
 * frames have the same order.
 */
import { FrameRules, type ChannelOptions, type OpenedFrame } from "../protocol/channel.ts";
import { isFault, type Fault } from "../protocol/fault.ts";
import { headerBytes, writeHeader, writeNonce, writePadded } from "../protocol/frames.ts";
import type { FrameHeader } from "../protocol/frames.ts";
import type { FrameWatch } from "../protocol/frame-watch.ts";
import type { DirectionKeys } from "../protocol/handshake.ts";
import { joinBytes, type Bytes } from "../verify/binary-text.ts";
import { webSuite } from "./web-crypto.ts";

export interface WebChannel {
  seal(
    type: FrameHeader["type"],
    rid: number,
    data: Uint8Array,
    isEnd?: boolean,
  ): Promise<Bytes | Fault>;
  open(frame: Bytes): Promise<OpenedFrame | Fault>;
  readonly watch: FrameWatch;
}

const algorithm = "AES-GCM";

export async function createWebChannel(options: ChannelOptions): Promise<WebChannel> {
  const { keys, th } = options;
  const rules = new FrameRules(options, webSuite.newHash);
  const { watch } = rules;
  const [sealing, opening] = [keys[rules.outgoing], keys[rules.incoming]];
  const sealingKey = await importKey(sealing, "encrypt");
  const openingKey = await importKey(opening, "decrypt");
  const runInOrder = createSerialQueue();

  async function seal(head: Omit<FrameHeader, "seq">, data: Uint8Array): Promise<Bytes | Fault> {
    const admitted = rules.admitSent(head, data);
    if (isFault(admitted)) return admitted;
    const { header, length } = admitted;
    const plaintext = new Uint8Array(length);
    writePadded(plaintext, data);
    const headBytes = new Uint8Array(headerBytes);
    writeHeader(headBytes, header);
    const parameters = gcm(sealing, header.seq, headBytes, th);
    const sealed = await crypto.subtle.encrypt(parameters, sealingKey, plaintext);
    const frame = joinBytes(headBytes, new Uint8Array(sealed));
    watch.record(header, frame);
    return frame;
  }

  async function open(frame: Bytes): Promise<OpenedFrame | Fault> {
    const header = rules.admitReceived(frame);
    if (isFault(header)) return header;
    const parameters = gcm(opening, header.seq, frame.subarray(0, headerBytes), th);
    const sealed = frame.subarray(headerBytes);
    const plaintext = await crypto.subtle.decrypt(parameters, openingKey, sealed).then(
      (bytes) => new Uint8Array(bytes),
      () => undefined,
    );
    return rules.finishReceived(header, frame, plaintext);
  }

  return {
    watch,
    seal: (type, rid, data, isEnd = type === "final") =>
      runInOrder(() => seal({ type, rid, isEnd }, data)),
    open: (frame) => runInOrder(() => open(frame)),
  };
}

function createSerialQueue(): <Value>(task: () => Promise<Value>) => Promise<Value> {
  let last: Promise<unknown> = Promise.resolve();
  return (task) => {
    const done = last.then(task);
    // The caller of the failed task receives the error; the next task only waits.
    last = done.catch(() => undefined);
    return done;
  };
}

async function importKey({ key }: DirectionKeys, use: "encrypt" | "decrypt"): Promise<CryptoKey> {
  return crypto.subtle.importKey("raw", key, algorithm, false, [use]);
}

interface GcmParameters {
  readonly name: string;
  readonly iv: Bytes;
  readonly additionalData: Bytes;
  readonly tagLength: number;
}

function gcm({ iv }: DirectionKeys, seq: number, head: Uint8Array, th: Bytes): GcmParameters {
  const nonce = new Uint8Array(iv.length);
  writeNonce(nonce, iv, seq);
  return { name: algorithm, iv: nonce, additionalData: joinBytes(head, th), tagLength: 128 };
}

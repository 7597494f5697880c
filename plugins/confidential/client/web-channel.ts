/**
 * The encrypted channel with WebCrypto. Calls may overlap; they run in the order in which they were made, and their
 * frames have the same order.
 */
import { createDataRules, receivesFrom, sendsTo } from "../protocol/channel.ts";
import type { ChannelOptions, OpenedFrame } from "../protocol/channel.ts";
import { fault, isFault, type Fault } from "../protocol/fault.ts";
import {
  headerBytes,
  paddedLength,
  readHeader,
  tagBytes,
  unpadData,
  writeHeader,
  writeNonce,
  writePadded,
} from "../protocol/frames.ts";
import type { FrameHeader } from "../protocol/frames.ts";
import { createFrameWatch, type FrameWatch } from "../protocol/frame-watch.ts";
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
  const { end, keys, th, pad } = options;
  const outgoing = sendsTo(end);
  const incoming = receivesFrom(end);
  const watch = createFrameWatch(webSuite.newHash);
  const sent = createDataRules();
  const received = createDataRules();
  const sealingKey = await importKey(keys[outgoing], "encrypt");
  const openingKey = await importKey(keys[incoming], "decrypt");
  const runInOrder = createSerialQueue();

  async function seal(
    type: FrameHeader["type"],
    rid: number,
    data: Uint8Array,
    isEnd: boolean,
  ): Promise<Bytes | Fault> {
    const header: FrameHeader = { type, rid, isEnd, seq: watch.nextSeq(outgoing) };
    const limitFault = sent.check(header, data.length);
    if (limitFault !== undefined) return watch.fail(limitFault);
    const plaintext = new Uint8Array(paddedLength(data.length, pad));
    writePadded(plaintext, data);
    const length = headerBytes + plaintext.length + tagBytes;
    const refusal = watch.admit(outgoing, header, length);
    if (refusal !== undefined) return refusal;
    const head = new Uint8Array(headerBytes);
    writeHeader(head, header);
    const parameters = gcm(keys[outgoing], header.seq, head, th);
    const sealed = await crypto.subtle.encrypt(parameters, sealingKey, plaintext);
    const frame = joinBytes(head, new Uint8Array(sealed));
    watch.record(header, frame);
    return frame;
  }

  async function open(frame: Bytes): Promise<OpenedFrame | Fault> {
    const header = readHeader(frame, incoming);
    if (isFault(header)) return watch.fail(header);
    const refusal = watch.admit(incoming, header, frame.length);
    if (refusal !== undefined) return refusal;
    const parameters = gcm(keys[incoming], header.seq, frame.subarray(0, headerBytes), th);
    let plaintext: ArrayBuffer;
    try {
      const sealed = frame.subarray(headerBytes);
      plaintext = await crypto.subtle.decrypt(parameters, openingKey, sealed);
    } catch {
      return watch.fail(fault("BAD_FRAME", "the frame cannot be opened"));
    }
    const data = unpadData(new Uint8Array(plaintext));
    if (isFault(data)) return watch.fail(data);
    const limitFault = received.check(header, data.length);
    if (limitFault !== undefined) return watch.fail(limitFault);
    watch.record(header, frame);
    return { header, data };
  }

  return {
    watch,
    seal: (type, rid, data, isEnd = type === "final") =>
      runInOrder(() => seal(type, rid, data, isEnd)),
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

/** The interface of a session's encrypted channel, and the rules that both implementations share. */
import { fault, isFault, type Fault } from "./fault.ts";
import { headerBytes, paddedLength, readHeader, tagBytes, unpadData } from "./frames.ts";
import type { Direction, FrameHeader } from "./frames.ts";
import { createFrameWatch, type FrameWatch } from "./frame-watch.ts";
import type { SessionKeys } from "./handshake.ts";
import { maxFrameDataBytes, maxRequestBytes, requestPieceBytes, type Pad } from "./limits.ts";
import type { IncrementalHash } from "./suite.ts";
import type { Bytes } from "../verify/binary-text.ts";

export interface ChannelOptions {
  readonly end: "client" | "enclave";
  readonly keys: SessionKeys;
  /** 32 bytes: th2. */
  readonly th: Bytes;
  /** Padding of the frames that this end sends. */
  readonly pad: Pad;
}

export interface OpenedFrame {
  readonly header: FrameHeader;
  readonly data: Uint8Array;
}

/** One end of a session. After the first fault, every call returns that fault. */
export interface Channel {
  /**
   * Returns the frame to send. `isEnd`: whether it is the last frame of a request. A final always has this flag; a
   * chunk and a cancel never have it.
   */
  seal(type: FrameHeader["type"], rid: number, data: Uint8Array, isEnd?: boolean): Bytes | Fault;
  /** `frame`: the binary message as received; it is not kept. */
  open(frame: Uint8Array): OpenedFrame | Fault;
  readonly watch: FrameWatch;
}

/** The part of a channel that does not encrypt: the order of the frames, their padding and the limits. */
export class FrameRules {
  readonly outgoing: Direction;
  readonly incoming: Direction;
  readonly watch: FrameWatch;
  readonly #pad: Pad;
  readonly #sentFault = createDataRules();
  readonly #receivedFault = createDataRules();

  constructor({ end, pad }: ChannelOptions, newHash: () => IncrementalHash) {
    this.outgoing = end === "client" ? "c2s" : "s2c";
    this.incoming = end === "client" ? "s2c" : "c2s";
    this.watch = createFrameWatch(newHash);
    this.#pad = pad;
  }

  /** Admits the next frame of this end. Returns its header and the size of its plaintext. */
  admitSent(
    { type, rid, isEnd }: Omit<FrameHeader, "seq">,
    data: Uint8Array,
  ): { readonly header: FrameHeader; readonly length: number } | Fault {
    const { outgoing, watch } = this;
    const header = { type, rid, isEnd, seq: watch.nextSeq(outgoing) };
    const tooMuch = this.#sentFault(header, data.length);
    if (tooMuch !== undefined) return watch.fail(tooMuch);
    const length = paddedLength(data.length, this.#pad);
    return watch.admit(outgoing, header, headerBytes + length + tagBytes) ?? { header, length };
  }

  admitReceived(frame: Uint8Array): FrameHeader | Fault {
    const header = readHeader(frame, this.incoming);
    if (isFault(header)) return this.watch.fail(header);
    return this.watch.admit(this.incoming, header, frame.length) ?? header;
  }

  /** Reads the plaintext of an admitted frame. `plaintext`: undefined if the frame cannot be decrypted. */
  finishReceived(
    header: FrameHeader,
    frame: Uint8Array,
    plaintext: Uint8Array | undefined,
  ): OpenedFrame | Fault {
    const { watch } = this;
    if (plaintext === undefined) {
      return watch.fail(fault("BAD_FRAME", "the frame cannot be opened"));
    }
    const data = unpadData(plaintext);
    if (isFault(data)) return watch.fail(data);
    const tooMuch = this.#receivedFault(header, data.length);
    if (tooMuch !== undefined) return watch.fail(tooMuch);
    watch.record(header, frame);
    return { header, data };
  }
}

/** Returns the check of one direction's decrypted data, which only the two ends see. It limits the size of requests. */
function createDataRules(): (header: FrameHeader, dataBytes: number) => Fault | undefined {
  let rid = 0;
  let requestBytes = 0;
  return (header, dataBytes) => {
    if (dataBytes > maxFrameDataBytes) {
      return fault("LIMIT_EXCEEDED", "the frame contains too much data");
    }
    if (header.type === "cancel" && dataBytes > 0)
      return fault("BAD_FRAME", "a cancel frame must not contain data");
    if (header.type !== "request") return undefined;
    requestBytes = header.rid === rid ? requestBytes + dataBytes : dataBytes;
    rid = header.rid;
    return requestBytes > maxRequestBytes
      ? fault("LIMIT_EXCEEDED", "the request is too long")
      : undefined;
  };
}

/** Splits a request into views, one per frame. There is at least one; the last one is for the frame with END. */
export function requestPieces(request: Uint8Array): readonly Uint8Array[] {
  const pieces = [request.subarray(0, requestPieceBytes)];
  for (let at = requestPieceBytes; at < request.length; at += requestPieceBytes) {
    pieces.push(request.subarray(at, at + requestPieceBytes));
  }
  return pieces;
}

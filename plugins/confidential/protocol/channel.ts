/** The interface of a session's encrypted channel, and the checks of decrypted data that both implementations share. */
import { fault, type Fault } from "./fault.ts";
import type { Direction, FrameHeader } from "./frames.ts";
import type { FrameWatch } from "./frame-watch.ts";
import type { SessionKeys } from "./handshake.ts";
import { maxFrameDataBytes, maxRequestBytes, requestPieceBytes, type Pad } from "./limits.ts";
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

export function sendsTo(end: ChannelOptions["end"]): Direction {
  return end === "client" ? "c2s" : "s2c";
}

export function receivesFrom(end: ChannelOptions["end"]): Direction {
  return end === "client" ? "s2c" : "c2s";
}

/** Checks decrypted data, which only the two ends see, and limits the size of requests. */
export interface DataRules {
  check(header: Pick<FrameHeader, "type" | "rid">, dataBytes: number): Fault | undefined;
}

export function createDataRules(): DataRules {
  let rid = 0;
  let requestBytes = 0;
  return {
    check(header, dataBytes) {
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
    },
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

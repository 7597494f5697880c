/** The sealed channel of a session, as both implementations of it give it; and what they check of the data inside. */
import { fault } from "./fault.ts";
import type { Fault } from "./fault.ts";
import type { Direction, FrameHeader } from "./frames.ts";
import type { FrameWatch } from "./frame-watch.ts";
import type { SessionKeys } from "./handshake.ts";
import { maxFrameDataBytes, maxRequestBytes, requestPieceBytes } from "./limits.ts";
import type { Pad } from "./limits.ts";
import type { Bytes } from "../verify/binary-text.ts";

export interface ChannelOptions {
  readonly end: "client" | "enclave";
  readonly keys: SessionKeys;
  /** 32 bytes: th2. */
  readonly th: Bytes;
  /** Of `hello`, for what this end sends. */
  readonly pad: Pad;
}

export interface OpenedFrame {
  readonly header: FrameHeader;
  readonly data: Uint8Array;
}

/** One end of a session. After the first fault everything is refused with that fault. */
export interface Channel {
  /** The frame to send. `isEnd`: the last of a request; a final always is one, a chunk and a cancel never. */
  seal(type: FrameHeader["type"], rid: number, data: Uint8Array, isEnd?: boolean): Bytes | Fault;
  /** What the peer sent. `frame`: the binary message as received; not kept. */
  open(frame: Uint8Array): OpenedFrame | Fault;
  readonly watch: FrameWatch;
}

/** Which way this end sends. */
export function sendsTo(end: ChannelOptions["end"]): Direction {
  return end === "client" ? "c2s" : "s2c";
}

export function receivesFrom(end: ChannelOptions["end"]): Direction {
  return end === "client" ? "s2c" : "c2s";
}

/** Counts the data of requests, which only the two ends see. */
export interface DataRules {
  check(header: Pick<FrameHeader, "type" | "rid">, dataBytes: number): Fault | undefined;
}

export function createDataRules(): DataRules {
  let rid = 0;
  let requestBytes = 0;
  return {
    check(header, dataBytes) {
      if (dataBytes > maxFrameDataBytes) {
        return fault("LIMIT_EXCEEDED", "the frame holds too much");
      }
      if (header.type === "cancel" && dataBytes > 0)
        return fault("BAD_FRAME", "a cancel with data");
      if (header.type !== "request") return undefined;
      requestBytes = header.rid === rid ? requestBytes + dataBytes : dataBytes;
      rid = header.rid;
      return requestBytes > maxRequestBytes
        ? fault("LIMIT_EXCEEDED", "the request is too long")
        : undefined;
    },
  };
}

/** Views of a request, each for one frame; at least one, the last for END. */
export function requestPieces(request: Uint8Array): readonly Uint8Array[] {
  const pieces = [request.subarray(0, requestPieceBytes)];
  for (let at = requestPieceBytes; at < request.length; at += requestPieceBytes) {
    pieces.push(request.subarray(at, at + requestPieceBytes));
  }
  return pieces;
}

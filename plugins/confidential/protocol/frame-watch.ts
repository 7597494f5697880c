/**
 * Checks the order and the limits of one session's frames, and computes the digests that a report must repeat. Client,
 * relay and enclave watch the same frames and reach the same result. A watch does not decrypt.
 */
import { fault, isFault, type Fault } from "./fault.ts";
import { headerBytes, readHeader, tagBytes, type Direction, type FrameHeader } from "./frames.ts";
import { label, writeU32 } from "./encoding.ts";
import { maxFrames, maxPlaintextBytes, maxRequestBytes, maxRequests } from "./limits.ts";
import type { IncrementalHash } from "./suite.ts";
import { toHex } from "../verify/binary-text.ts";

export interface WatchedExchange {
  readonly rid: number;
  /** SHA-256 of the request frames in lower-case hex. */
  readonly reqDigest: string;
  /** SHA-256 of the chunks and the final in lower-case hex. */
  readonly resDigest: string;
  /** True if the final has been seen. Otherwise the digests cover the frames so far. */
  readonly hasEnded: boolean;
  /** Total size of the request's frames, headers included; likewise `responseBytes`. */
  readonly requestBytes: number;
  readonly responseBytes: number;
}

export interface FrameWatch {
  /**
   * Admits and records a frame as it was received. A relay needs no other method. After a fault, every frame in that
   * direction is refused. The other direction continues, because the enclave must still send a report for the request
   * that the client's fault has ended.
   */
  observe(direction: Direction, frame: Uint8Array): FrameHeader | Fault;
  /** Checks whether a frame may come next, and counts it if so. `length`: size of the whole frame. */
  admit(direction: Direction, header: FrameHeader, length: number): Fault | undefined;
  record(header: FrameHeader, frame: Uint8Array): void;
  /** Ends the session for a reason that the caller has found. Returns the first reason. */
  fail(reason: Fault): Fault;
  nextSeq(direction: Direction): number;
  /** The id of the newest request. 0 before the first one. */
  rid(): number;
  isOpen(): boolean;
  /** Removes and returns the frames of a request. Undefined if it never started or has already been taken. */
  take(rid: number): WatchedExchange | undefined;
}

interface DirectionState {
  seq: number;
  plaintextBytes: number;
}

interface Exchange {
  readonly rid: number;
  readonly requestHash: IncrementalHash;
  readonly responseHash: IncrementalHash;
  requestFrames: number;
  requestBytes: number;
  responseBytes: number;
  /** True if the request has its END or was cancelled. It must not have further frames. */
  isComplete: boolean;
  isCancelled: boolean;
  hasEnded: boolean;
}

const requestLabel = label("cstream/1 c2s stream");
const responseLabel = label("cstream/1 s2c stream");
/** Maximum size of the length prefix and padding of a frame, which a relay cannot see. */
const maxFramePadding = 1028;

export function createFrameWatch(newHash: () => IncrementalHash): FrameWatch {
  const directions: Readonly<Record<Direction, DirectionState>> = {
    c2s: { seq: 0, plaintextBytes: 0 },
    s2c: { seq: 0, plaintextBytes: 0 },
  };
  const exchanges = new Map<number, Exchange>();
  /** Requests that have ended and whose reports have not arrived yet. */
  const ended = new Map<number, WatchedExchange>();
  const prefix = new Uint8Array(4);
  let current: Exchange | undefined;
  let newest = 0;
  let broken: Fault | undefined;
  const refused: Partial<Record<Direction, Fault>> = {};

  function begin(rid: number): Exchange | Fault {
    if (current?.hasEnded === false) return fault("BAD_FRAME", "a request is still open");
    if (rid !== newest + 1) return fault("BAD_FRAME", "rid is not the next number");
    if (rid > maxRequests) return fault("LIMIT_EXCEEDED", "too many requests in one session");
    newest = rid;
    current = startExchange(rid, newHash);
    exchanges.set(rid, current);
    return current;
  }

  function admitRequest(header: FrameHeader, length: number): Fault | undefined {
    const exchange = header.rid === current?.rid ? current : begin(header.rid);
    if (isFault(exchange)) return exchange;
    if (exchange.isComplete || exchange.hasEnded) {
      return fault("BAD_FRAME", "the request has already ended");
    }
    exchange.isComplete = header.isEnd;
    exchange.requestFrames++;
    exchange.requestBytes += length;
    const overhead = exchange.requestFrames * (headerBytes + tagBytes + maxFramePadding);
    return exchange.requestBytes > maxRequestBytes + overhead
      ? fault("LIMIT_EXCEEDED", "the request is too long")
      : undefined;
  }

  function admitKind(header: FrameHeader, length: number): Fault | undefined {
    if (header.type === "request") return admitRequest(header, length);
    if (current === undefined || header.rid !== current.rid) {
      return fault("BAD_FRAME", "rid does not belong to an open request");
    }
    if (header.type === "cancel") {
      // A cancel after the final is allowed, because the two can cross in transit.
      if (current.isCancelled) return fault("BAD_FRAME", "the request was already cancelled");
      current.isCancelled = true;
      current.isComplete = true;
      return undefined;
    }
    if (current.hasEnded) return fault("BAD_FRAME", "the response has already ended");
    if (!current.isComplete) return fault("BAD_FRAME", "a response before the request's END");
    current.responseBytes += length;
    current.hasEnded = header.type === "final";
    return undefined;
  }

  function admitNext(direction: Direction, header: FrameHeader, length: number): Fault | undefined {
    return admitSequence(directions[direction], header, length) ?? admitKind(header, length);
  }

  function admit(direction: Direction, header: FrameHeader, length: number): Fault | undefined {
    broken ??= admitNext(direction, header, length);
    return broken;
  }

  function record({ type, rid }: FrameHeader, frame: Uint8Array): void {
    const exchange = type === "cancel" ? undefined : exchanges.get(rid);
    if (exchange === undefined) return;
    const hash = type === "request" ? exchange.requestHash : exchange.responseHash;
    writeU32(prefix, 0, frame.length);
    hash.update(prefix);
    hash.update(frame);
    if (type === "final") {
      exchanges.delete(rid);
      ended.set(rid, watchedExchange(exchange));
    }
  }

  function fail(reason: Fault): Fault {
    broken ??= reason;
    return broken;
  }

  return {
    admit,
    record,
    fail,
    observe(direction, frame) {
      const header = broken ?? refused[direction] ?? readHeader(frame, direction);
      const reason = isFault(header) ? header : admitNext(direction, header, frame.length);
      if (reason !== undefined) refused[direction] = reason;
      if (reason !== undefined || isFault(header)) return reason ?? header;
      record(header, frame);
      return header;
    },
    nextSeq: (direction) => directions[direction].seq,
    rid: () => newest,
    isOpen: () => current?.hasEnded === false,
    take(rid) {
      const exchange = exchanges.get(rid);
      const watched = ended.get(rid) ?? (exchange && watchedExchange(exchange));
      exchanges.delete(rid);
      ended.delete(rid);
      return watched;
    },
  };
}

function startExchange(rid: number, newHash: () => IncrementalHash): Exchange {
  const requestHash = newHash();
  const responseHash = newHash();
  requestHash.update(requestLabel);
  responseHash.update(responseLabel);
  return {
    rid,
    requestHash,
    responseHash,
    requestFrames: 0,
    requestBytes: 0,
    responseBytes: 0,
    isComplete: false,
    isCancelled: false,
    hasEnded: false,
  };
}

function admitSequence(
  state: DirectionState,
  { seq }: FrameHeader,
  length: number,
): Fault | undefined {
  if (seq !== state.seq) return fault("REPLAY", "the sequence number is not the next number");
  if (seq >= maxFrames) return fault("LIMIT_EXCEEDED", "too many frames in one session");
  state.seq++;
  state.plaintextBytes += length - headerBytes - tagBytes;
  return state.plaintextBytes > maxPlaintextBytes
    ? fault("LIMIT_EXCEEDED", "too many bytes in one session")
    : undefined;
}

function watchedExchange(exchange: Exchange): WatchedExchange {
  const { rid, requestBytes, responseBytes, hasEnded } = exchange;
  return {
    rid,
    reqDigest: toHex(exchange.requestHash.digest()),
    resDigest: toHex(exchange.responseHash.digest()),
    hasEnded,
    requestBytes,
    responseBytes,
  };
}

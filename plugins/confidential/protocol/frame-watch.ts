/**
 * Watches the frames of one session: the next sequence number and nothing else, one request at a time, its END, the
 * session's limits, and the digests that a report must repeat. Client, relay and enclave watch the same frames and keep
 * the same account; what is inside, a watch does not see.
 */
import { fault, isFault } from "./fault.ts";
import type { Fault } from "./fault.ts";
import { headerBytes, readHeader, tagBytes } from "./frames.ts";
import type { Direction, FrameHeader } from "./frames.ts";
import { label, writeU32 } from "./encoding.ts";
import { maxFrames, maxPlaintextBytes, maxRequestBytes, maxRequests } from "./limits.ts";
import type { IncrementalHash } from "./suite.ts";
import { toHex } from "../verify/binary-text.ts";

/** What went over the wire for one request. */
export interface WatchedExchange {
  readonly rid: number;
  /** Lower-case hex, over the request frames. */
  readonly reqDigest: string;
  /** Lower-case hex, over chunks and final. */
  readonly resDigest: string;
  /** The final has been seen; without it the digests are those so far. */
  readonly hasEnded: boolean;
  /** Bytes of frames. */
  readonly requestBytes: number;
  readonly responseBytes: number;
}

export interface FrameWatch {
  /**
   * Reads, admits and records a frame as it stands on the wire: all that a relay does. After a fault that direction is
   * refused; the other goes on, since an enclave still owes the report of what a client's fault has ended.
   */
  observe(direction: Direction, frame: Uint8Array): FrameHeader | Fault;
  /** Whether a frame may come next; it then counts. `length`: of the whole frame. */
  admit(direction: Direction, header: FrameHeader, length: number): Fault | undefined;
  /** Adds an admitted frame to the digests. */
  record(header: FrameHeader, frame: Uint8Array): void;
  /** Ends the session for a reason of the caller's own: what follows is refused. Returns the first reason. */
  fail(reason: Fault): Fault;
  /** The sequence number that the next frame must have. */
  nextSeq(direction: Direction): number;
  /** The newest request, 0 before the first. */
  rid(): number;
  /** A request has begun and its final has not come. */
  isOpen(): boolean;
  /** The account of a request, once: for its report. Undefined when it never began or has been taken. */
  take(rid: number): WatchedExchange | undefined;
}

/** One direction of the session. */
interface Lane {
  seq: number;
  plaintextBytes: number;
}

/** A request and its response. */
interface Exchange {
  readonly rid: number;
  readonly requestHash: IncrementalHash;
  readonly responseHash: IncrementalHash;
  requestFrames: number;
  requestBytes: number;
  responseBytes: number;
  /** No further request frame may come. */
  isAsked: boolean;
  isCancelled: boolean;
  hasEnded: boolean;
}

const requestLabel = label("cstream/1 c2s stream");
const responseLabel = label("cstream/1 s2c stream");
/** What a relay cannot see through: length prefix and padding of each frame. */
const maxFramePadding = 1028;

/** `newHash`: SHA-256. */
export function createFrameWatch(newHash: () => IncrementalHash): FrameWatch {
  const lanes: Readonly<Record<Direction, Lane>> = {
    c2s: { seq: 0, plaintextBytes: 0 },
    s2c: { seq: 0, plaintextBytes: 0 },
  };
  const exchanges = new Map<number, Exchange>();
  /** Ended, and their reports not come yet. */
  const ended = new Map<number, WatchedExchange>();
  const prefix = new Uint8Array(4);
  let current: Exchange | undefined;
  let newest = 0;
  let broken: Fault | undefined;
  /** What `observe` refused. */
  const refused: Partial<Record<Direction, Fault>> = {};

  function begin(rid: number): Exchange | Fault {
    if (current?.hasEnded === false) return fault("BAD_FRAME", "a request is still open");
    if (rid !== newest + 1) return fault("BAD_FRAME", "rid is not the next");
    if (rid > maxRequests) return fault("LIMIT_EXCEEDED", "too many requests in one session");
    newest = rid;
    current = startExchange(rid, newHash);
    exchanges.set(rid, current);
    return current;
  }

  function admitRequest(header: FrameHeader, length: number): Fault | undefined {
    const exchange = header.rid === current?.rid ? current : begin(header.rid);
    if (isFault(exchange)) return exchange;
    if (exchange.isAsked || exchange.hasEnded) {
      return fault("BAD_FRAME", "the request has ended");
    }
    exchange.isAsked = header.isEnd;
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
      return fault("BAD_FRAME", "rid is of no open request");
    }
    if (header.type === "cancel") {
      // It may cross the final on its way, which nobody can help.
      if (current.isCancelled) return fault("BAD_FRAME", "the request was cancelled before");
      current.isCancelled = true;
      current.isAsked = true;
      return undefined;
    }
    if (current.hasEnded) return fault("BAD_FRAME", "the response has ended");
    if (!current.isAsked) return fault("BAD_FRAME", "a response before the request's END");
    current.responseBytes += length;
    current.hasEnded = header.type === "final";
    return undefined;
  }

  function admitNext(direction: Direction, header: FrameHeader, length: number): Fault | undefined {
    return admitLane(lanes[direction], header, length) ?? admitKind(header, length);
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
      ended.set(rid, closeAccount(exchange));
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
    nextSeq: (direction) => lanes[direction].seq,
    rid: () => newest,
    isOpen: () => current?.hasEnded === false,
    take(rid) {
      const exchange = exchanges.get(rid);
      const account = ended.get(rid) ?? (exchange && closeAccount(exchange));
      exchanges.delete(rid);
      ended.delete(rid);
      return account;
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
    isAsked: false,
    isCancelled: false,
    hasEnded: false,
  };
}

function admitLane(lane: Lane, { seq }: FrameHeader, length: number): Fault | undefined {
  if (seq !== lane.seq) return fault("REPLAY", "the sequence number is not the next");
  if (seq >= maxFrames) return fault("LIMIT_EXCEEDED", "too many frames in one session");
  lane.seq++;
  lane.plaintextBytes += length - headerBytes - tagBytes;
  return lane.plaintextBytes > maxPlaintextBytes
    ? fault("LIMIT_EXCEEDED", "too many bytes in one session")
    : undefined;
}

function closeAccount(exchange: Exchange): WatchedExchange {
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

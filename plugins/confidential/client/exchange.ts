/** One request and its answer over an open session: sealing, opening, and the verdict over the report. */
import { requestPieces } from "../protocol/channel.ts";
import { fault, isFault } from "../protocol/fault.ts";
import { idleMs, maxTextBytes } from "../protocol/limits.ts";
import { isJsonObject, readJsonObject } from "../protocol/strict-json.ts";
import { readTextFrame } from "../protocol/text-frames.ts";
import type { Bytes } from "../verify/binary-text.ts";
import { isDelta } from "./answer.ts";
import type { FinalAnswer } from "./answer.ts";
import { conclude } from "./conclude.ts";
import type { Final } from "./conclude.ts";
import type { Deltas } from "./deltas.ts";
import {
  closeCodeOf,
  closedFailure,
  ConfidentialError,
  failureOf,
  toldFailure,
} from "./failure.ts";
import type { OpenSession } from "./attempt.ts";
import type { Settings } from "./options.ts";

/** What the caller has in hand of a request under way. */
export interface Turn {
  readonly deltas: Deltas;
  /** Set by a reader who left or a signal; the enclave is told once something has been sent. */
  isCancelled: boolean;
  /** Sends `cancel`, as soon as the request has gone; undefined before. */
  tellCancelled: (() => Promise<void>) | undefined;
}

/** Of deltas that nobody reads: beyond it the session ends, since it cannot make the server wait. */
const maxUnreadBytes = 16 * 1024 * 1024;
const nothing = new Uint8Array(0);

/** Runs one request to its `done`. Throws ConfidentialError for whatever ends the session. */
export async function runExchange(
  open: OpenSession,
  settings: Settings,
  request: Bytes,
  turn: Turn,
): Promise<FinalAnswer> {
  const rid = open.channel.watch.rid() + 1;
  const sending = sendRequest(open, rid, request, turn);
  // A failure of it closes the socket, which ends the reading too; it is told below.
  sending.catch(() => open.socket.close(closeCodeOf("CONNECTION_CLOSED")));
  let final: Final | undefined;
  for (;;) {
    const message = await nextMessage(open, settings, sending);
    if (message.kind === "binary") {
      final = (await openFrame(open, message.bytes, turn)) ?? final;
      continue;
    }
    const frame = readTextFrame(message.bytes);
    if (isFault(frame)) throw failureOf(frame);
    if (frame.kind === "error") throw toldFailure(frame.code);
    if (frame.kind !== "done") throw broken(`${frame.kind} within a request`);
    if (final === undefined) {
      throw new ConfidentialError("TRUNCATED", "done before the answer's end");
    }
    if (frame.rid !== rid) throw broken("done is of another request");
    await sending;
    return conclude(open, settings, frame, final);
  }
}

async function sendRequest(
  { channel, socket }: OpenSession,
  rid: number,
  request: Bytes,
  turn: Turn,
): Promise<void> {
  const send = async (
    type: "request" | "cancel",
    data: Uint8Array,
    isEnd: boolean,
  ): Promise<void> => {
    const frame = await channel.seal(type, rid, data, isEnd);
    if (isFault(frame)) throw failureOf(frame);
    socket.send(frame);
  };
  const cancel = async (): Promise<void> => {
    if (channel.watch.isOpen()) await send("cancel", nothing, false);
  };
  const pieces = requestPieces(request);
  for (const [at, piece] of pieces.entries()) {
    await socket.flushed();
    if (at > 0 && turn.isCancelled) return cancel();
    await send("request", piece, at === pieces.length - 1);
  }
  if (turn.isCancelled) return cancel();
  turn.tellCancelled = cancel;
}

async function nextMessage(
  { socket }: OpenSession,
  { clock }: Settings,
  sending: Promise<void>,
): Promise<{ readonly kind: "text" | "binary"; readonly bytes: Bytes }> {
  let isLate = false;
  const stop = clock.after(idleMs, () => {
    isLate = true;
    socket.close(closeCodeOf("TIMEOUT"));
  });
  const message = await socket.next();
  stop();
  if (message.kind !== "closed") return message;
  if (isLate) throw new ConfidentialError("TIMEOUT", "nothing came for too long");
  // What the sender complained of says more than the close that it caused.
  await Promise.race([sending, Promise.resolve()]);
  throw closedFailure(message.code);
}

/** Hands a chunk on; the last frame's contents come back. */
async function openFrame(
  { channel }: OpenSession,
  bytes: Bytes,
  { deltas }: Turn,
): Promise<Final | undefined> {
  const opened = await channel.open(bytes);
  if (isFault(opened)) throw failureOf(opened);
  const { header, data } = opened;
  const object = readJsonObject(data, maxTextBytes);
  if (object === undefined) throw broken("a frame's contents cannot be read");
  if (header.type === "chunk") {
    if (!isDelta(object)) throw broken("a chunk is no delta");
    deltas.push(object, bytes.length);
    if (deltas.waitingBytes() <= maxUnreadBytes) return undefined;
    throw failureOf(fault("LIMIT_EXCEEDED", "the answer is not being read"));
  }
  const { finish_reason: finishReason, error } = object;
  if (typeof finishReason !== "string") throw broken("the last frame names no finish_reason");
  return { finishReason, error: errorText(error) };
}

/** Text, or an object with a `message`, as OpenAI's errors are. */
function errorText(error: unknown): string | undefined {
  if (error === undefined || error === null) return undefined;
  const text = isJsonObject(error) ? error["message"] : error;
  return typeof text === "string" ? text : "the request failed";
}

function broken(message: string): ConfidentialError {
  return new ConfidentialError("BAD_FRAME", message);
}

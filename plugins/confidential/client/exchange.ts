import { isObject } from "sluice-gateway/internal/toolkit";
import { requestPieces } from "../protocol/channel.ts";
import { fault, isFault } from "../protocol/fault.ts";
import { idleMs, maxTextBytes } from "../protocol/limits.ts";
import { isCount, readJsonObject } from "../protocol/strict-json.ts";
import { readTextFrame } from "../protocol/text-frames.ts";
import type { Bytes } from "../verify/binary-text.ts";
import { isDelta, type FinalAnswer } from "./answer.ts";
import { createFinalAnswer, type FinalFrame } from "./final-answer.ts";
import type { DeltaQueue } from "./delta-queue.ts";
import {
  closeCodeOf,
  failureOfClose,
  ConfidentialError,
  failureOfFault,
  failureOfErrorFrame,
} from "./failure.ts";
import type { OpenSession } from "./handshake-attempt.ts";
import type { Settings } from "./options.ts";

export interface ActiveRequest {
  readonly deltas: DeltaQueue;
  isCancelled: boolean;
  /** Undefined until the request has been sent completely. */
  sendCancel: (() => Promise<void>) | undefined;
}

/** Above this size the session ends, because a client cannot apply backpressure to the server. */
const maxUnreadBytes = 16 * 1024 * 1024;
const nothing = new Uint8Array(0);

/** Runs one request until its `done` frame. Throws a ConfidentialError for every failure that ends the session. */
export async function runExchange(
  open: OpenSession,
  settings: Settings,
  request: Bytes,
  active: ActiveRequest,
): Promise<FinalAnswer> {
  const rid = open.channel.watch.rid() + 1;
  const sending = sendRequest(open, rid, request, active);
  // A failure to send closes the socket, which also ends the loop below. The error is thrown there.
  sending.catch(() => open.socket.close(closeCodeOf("CONNECTION_CLOSED")));
  let final: FinalFrame | undefined;
  for (;;) {
    const message = await nextMessage(open, settings, sending);
    if (message.kind === "binary") {
      final = (await openFrame(open, message.bytes, active)) ?? final;
      continue;
    }
    const frame = readTextFrame(message.bytes);
    if (isFault(frame)) throw failureOfFault(frame);
    if (frame.kind === "error") throw failureOfErrorFrame(frame.code);
    if (frame.kind !== "done") throw badFrame(`unexpected frame ${frame.kind} within a request`);
    if (final === undefined) {
      throw new ConfidentialError(
        "TRUNCATED",
        "the frame done arrived before the end of the answer",
      );
    }
    if (frame.rid !== rid) throw badFrame("the frame done belongs to another request");
    await sending;
    return createFinalAnswer(open, settings, frame, final);
  }
}

async function sendRequest(
  { channel, socket }: OpenSession,
  rid: number,
  request: Bytes,
  active: ActiveRequest,
): Promise<void> {
  const send = async (
    type: "request" | "cancel",
    data: Uint8Array,
    isEnd: boolean,
  ): Promise<void> => {
    const frame = await channel.seal(type, rid, data, isEnd);
    if (isFault(frame)) throw failureOfFault(frame);
    socket.send(frame);
  };
  const cancel = async (): Promise<void> => {
    if (channel.watch.isOpen()) await send("cancel", nothing, false);
  };
  const pieces = requestPieces(request);
  for (const [at, piece] of pieces.entries()) {
    await socket.flushed();
    if (at > 0 && active.isCancelled) return cancel();
    await send("request", piece, at === pieces.length - 1);
  }
  if (active.isCancelled) return cancel();
  active.sendCancel = cancel;
}

async function nextMessage(
  { socket }: OpenSession,
  { clock }: Settings,
  sending: Promise<void>,
): Promise<{ readonly kind: "text" | "binary"; readonly bytes: Bytes }> {
  let isTimedOut = false;
  const stop = clock.after(idleMs, () => {
    isTimedOut = true;
    socket.close(closeCodeOf("TIMEOUT"));
  });
  const message = await socket.next();
  stop();
  if (message.kind !== "closed") return message;
  if (isTimedOut) {
    throw new ConfidentialError("TIMEOUT", `no frame arrived within ${idleMs / 1000} s`);
  }
  // An error of sending is more specific than the close that it caused.
  await Promise.race([sending, Promise.resolve()]);
  throw failureOfClose(message.code);
}

async function openFrame(
  { channel }: OpenSession,
  bytes: Bytes,
  { deltas }: ActiveRequest,
): Promise<FinalFrame | undefined> {
  const opened = await channel.open(bytes);
  if (isFault(opened)) throw failureOfFault(opened);
  const { header, data } = opened;
  const object = readJsonObject(data, maxTextBytes);
  if (object === undefined) throw badFrame("the content of a frame is not valid JSON");
  if (header.type === "chunk") {
    if (!isDelta(object)) throw badFrame("a chunk does not contain a valid delta");
    deltas.push(object, bytes.length);
    if (deltas.unreadBytes() <= maxUnreadBytes) return undefined;
    throw failureOfFault(fault("LIMIT_EXCEEDED", "too many deltas have not been read"));
  }
  const { finish_reason: finishReason, error } = object;
  if (typeof finishReason !== "string") throw badFrame("the last frame has no finish_reason");
  const code = isObject(error) ? error["code"] : undefined;
  const errorCode = typeof code === "string" ? code : undefined;
  return { finishReason, error: errorText(error), errorCode, contextExceeded: contextOf(error) };
}

function contextOf(error: unknown): FinalFrame["contextExceeded"] {
  const context = isObject(error) ? error["context"] : undefined;
  if (!isObject(context)) return undefined;
  const { limit, requested, prompt } = context;
  return {
    limit: isCount(limit) ? limit : undefined,
    requested: isCount(requested) ? requested : undefined,
    ...(isCount(prompt) && { prompt }),
  };
}

/** An error is a text, or an object with a `message` like OpenAI's errors. */
function errorText(error: unknown): string | undefined {
  if (error === undefined || error === null) return undefined;
  const text = isObject(error) ? error["message"] : error;
  return typeof text === "string" ? text : "the request failed";
}

function badFrame(message: string): ConfidentialError {
  return new ConfidentialError("BAD_FRAME", message);
}

import { isUint8Array } from "node:util/types";
import { refuse } from "../../base/errors.ts";
import type { Reply } from "../../plugin.ts";
import type { PlacedStep } from "./compile.ts";
import { coreDepth } from "../observe/record.ts";
import { addTrace } from "../observe/trace-header.ts";
import type { LiveExchange } from "./exchange.ts";
import { flush } from "./flush.ts";
import { responseChunk, responseEnd, responseHeaders } from "./hook-phases.ts";
import { runHooks } from "./hooks.ts";
import { maxWholeBytes, sendLargeBody } from "./large-body.ts";
import { checkStatus, LiveResponseHead } from "./response-head.ts";
import { countFailure } from "./step-failures.ts";

type Body = Reply["body"] | Reply["pieces"];

/** Never throws. */
export function replyFromSurface(x: LiveExchange, reply: Reply): void {
  send(x, reply, x.record.repliedDepth === undefined ? "surface" : "step");
}

/** Never throws. */
export function replyFromStep(x: LiveExchange, reply: Reply): void {
  x.repliedBy(x.currentStep);
  send(x, reply, "step");
}

/** Sends a reply of the core itself, which refuses the request between the steps and the surface. Never throws. */
export function replyFromCore(x: LiveExchange, reply: Reply): void {
  x.repliedBy(undefined);
  send(x, reply, "step");
}

/**
 * Handles an exception of the plugin that runs (`x.currentStep`, else the surface), which is a bug. The client gets a
 * 500 without details, or a cut connection if the head has been sent. Never throws.
 */
export function fail(x: LiveExchange, error: unknown): void {
  const { runtime, route, arrival } = x;
  // Outside of hooks, the reply itself is wrong: HTTP does not allow its status or a field.
  const step = x.currentStep ?? stepThatReplied(x);
  if (countFailure(x, step, error)) {
    const plugin = step?.name ?? route.surface;
    const { requestId } = x.facts;
    runtime.log.error({ err: error, plugin, route: route.path, requestId }, "a plugin failed");
  }
  if (x.hasEnded) return;
  if (arrival.res.headersSent || x.isStreaming) return x.cutOff("upstreamFailed");
  x.record.failedDepth = step?.depth;
  // The 500 runs up the list once, without the hooks of the step that failed.
  if (x.markFailed()) return replyFromCore(x, refuse("GATEWAY_INTERNAL_ERROR"));
  try {
    const { status, headers, body } = refuse("GATEWAY_INTERNAL_ERROR");
    x.record.status = status;
    arrival.res.writeHead(status, headers?.slice());
    arrival.res.end(body ?? "", "utf8");
  } catch {
    x.cutOff("upstreamFailed");
  }
}

/** Undefined if the surface or the core has replied. */
function stepThatReplied({ record, compiled }: LiveExchange): PlacedStep | undefined {
  const { repliedDepth } = record;
  return repliedDepth === undefined ? undefined : compiled.steps[repliedDepth];
}

/** Fails an exchange whose plugin threw in a callback. Its surface may never return, so nothing waits for it. */
export function failCallback(x: LiveExchange, error: unknown): void {
  x.currentStep = undefined;
  fail(x, error);
  x.surfaceReturned();
}

/** Continues with `resume` after hooks. A rejection, or an error in `resume`, fails only the exchange, not the process. */
export function afterHooks(
  x: LiveExchange,
  running: Promise<Reply | undefined>,
  resume: (reply: Reply | undefined) => void,
): void {
  running.then(
    (reply) => {
      try {
        resume(reply);
      } catch (error) {
        fail(x, error);
      }
    },
    (error: unknown) => fail(x, error),
  );
}

function send(x: LiveExchange, given: Reply, from: "step" | "surface"): void {
  try {
    const reply = given.refusal === undefined ? given : inShapeOfSurface(x, given);
    x.beginReply(reply.outcome);
    if (reply.reached !== undefined) x.record.reached = reply.reached;
    x.record.reason = reply.reason;
    const head = new LiveResponseHead(reply, from, false);
    const { body = reply.pieces } = reply;
    const running = runHooks(x, responseHeaders, head);
    if (running instanceof Promise) {
      afterHooks(x, running, () => endReply(x, head, body));
    } else endReply(x, head, body);
  } catch (error) {
    // A plugin in JavaScript can return anything, for example `null`.
    fail(x, error);
  }
}

function inShapeOfSurface(x: LiveExchange, reply: Reply): Reply {
  const { code, refusal } = reply;
  const { surface } = x.compiled;
  if (code === undefined || refusal === undefined || surface.renderRefusal === undefined) {
    return reply;
  }
  x.currentStep = undefined;
  try {
    return { ...reply, ...surface.renderRefusal({ ...reply, code, refusal }, x), code };
  } catch (error) {
    // It is a bug of the surface, and not of the step that refused.
    x.record.repliedDepth = coreDepth;
    throw error;
  }
}

/** Waits for the `responseEnd` hooks. Nothing has been sent, so the reply of a hook can still replace this one. */
function endReply(x: LiveExchange, head: LiveResponseHead, body: Body): void {
  if (x.hasEnded) return;
  const result = runHooks(x, responseEnd, x.answerOutcome, x.nextResponseEnd);
  if (result instanceof Promise) {
    afterHooks(x, result, (refusal) => finish(x, head, body, refusal));
  } else finish(x, head, body, result);
}

function finish(x: LiveExchange, head: LiveResponseHead, body: Body, refusal?: Reply): void {
  if (x.hasEnded) return;
  if (refusal === undefined) write(x, head, body);
  else replyFromStep(x, refusal);
}

/** Throws for a head that HTTP does not allow: a status or a field that a plugin has set. */
function write(x: LiveExchange, head: LiveResponseHead, body: Body): void {
  const { res } = x.arrival;
  const bytes = filterBody(x, body, head.status);
  const length = byteLength(bytes);
  if (!isBodiless(head.status)) head.set("content-length", String(length));
  writeHead(x, head);
  x.record.bodyBytes = length;
  // Text with as many characters as bytes is ASCII. latin1 writes it several µs faster (at 20 KB).
  const isAscii = typeof bytes === "string" && length === bytes.length;
  if (length > maxWholeBytes) return sendLargeBody(x, partsOf(bytes, isAscii), length);
  const whole = isList(bytes) ? Buffer.concat(bytes) : bytes;
  res.end(whole ?? "", isAscii ? "latin1" : "utf8");
  if (res.writableLength > 0) x.watchReader();
}

/** Parts without bytes are left out, so that the last part ends the body. */
function partsOf(body: Body, isAscii: boolean): readonly (string | Uint8Array)[] {
  if (typeof body === "string") return [isAscii ? body : Buffer.from(body)];
  if (!isList(body)) return body === undefined ? [] : [body];
  return body.filter(({ length }) => length > 0);
}

function isList(body: Body): body is readonly Uint8Array[] {
  return Array.isArray(body);
}

export function writeHead(x: LiveExchange, head: LiveResponseHead): void {
  checkStatus(head.status);
  closeIfUnread(x, head);
  if (x.wantsTrace) addTrace(x.record, head, x.runtime.clock.monotonic() - x.arrivedMonotonic);
  x.arrival.res.writeHead(head.status, head.fields);
  x.record.status = head.status;
  x.record.code = head.code;
}

function byteLength(body: Body): number {
  if (typeof body === "string") return Buffer.byteLength(body);
  if (isList(body)) return body.reduce((sum, part) => sum + bytesIn(part), 0);
  return body === undefined ? 0 : bytesIn(body);
}

/** Throws for anything else than bytes, which a plugin in JavaScript can return. */
function bytesIn(part: Uint8Array): number {
  if (!isUint8Array(part)) throw new TypeError("the body of a reply is neither text nor bytes");
  return part.length;
}

function filterBody(x: LiveExchange, body: Body, status: number): Body {
  const { responseChunk: chunkHooks, responseFlush } = x.compiled;
  if (chunkHooks.length === 0 && responseFlush.length === 0) return body;
  let filtered = body;
  if (chunkHooks.length > 0 && body !== undefined) {
    const chunk = { bytes: bytesOf(body) };
    void runHooks(x, responseChunk, chunk);
    filtered = chunk.bytes;
  }
  const rest = isBodiless(status) ? undefined : flush(x);
  return rest === undefined ? filtered : Buffer.concat([bytesOf(filtered ?? ""), rest]);
}

function bytesOf(body: NonNullable<Body>): Uint8Array {
  if (isList(body)) return Buffer.concat(body);
  return typeof body === "string" ? Buffer.from(body) : body;
}

/** 204 and 304 have no body and must not announce one (RFC 9110 section 8.6). */
export function isBodiless(status: number): boolean {
  return status === 204 || status === 304;
}

/** Maximum number of bytes of an unread request body that are read to keep the connection open. */
const drainableBytes = 64 * 1024;

/**
 * If the response is sent before the body of the request has been read, the rest of the body must be read to find the
 * next request. A small rest is read. A large or unknown rest closes the connection.
 */
function closeIfUnread(x: LiveExchange, head: LiveResponseHead): void {
  const { req, body } = x.arrival;
  if (Buffer.isBuffer(body) || body.complete || !x.request.hasBody) return;
  const announced = Number(req.headers["content-length"] ?? Infinity);
  if (announced > drainableBytes || x.awaitsContinue) head.set("connection", "close");
}

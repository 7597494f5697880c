/** Replies of known size, and failures: the way up through the response hooks, and the bytes that are sent. */
import { refuse } from "../../errors.ts";
import type { Reply } from "../../plugin.ts";
import { addTrace } from "../observe/trace-header.ts";
import type { LiveExchange } from "./exchange.ts";
import { responseChunk, responseEnd, responseHeaders } from "./hook-phases.ts";
import { runHooks } from "./hooks.ts";
import { LiveResponseHead } from "./response-head.ts";
import { countFailure } from "./step-failures.ts";

type Body = string | Uint8Array | undefined;

/** Sends a reply of the surface. Never throws. */
export function replyFromSurface(x: LiveExchange, reply: Reply): void {
  send(x, reply, x.record.repliedDepth === undefined ? "surface" : "step");
}

/** Sends a reply of the step at `x.currentStep`. Never throws. */
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
  const { currentStep, runtime, route, arrival } = x;
  if (countFailure(x, currentStep, error)) {
    const plugin = currentStep?.name ?? route.surface;
    const { requestId } = x.facts;
    runtime.log.error({ err: error, plugin, route: route.path, requestId }, "a plugin failed");
  }
  if (x.hasEnded) return;
  if (arrival.res.headersSent || x.isStreaming) return x.cutOff("upstreamFailed");
  x.record.failedDepth = currentStep?.depth;
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

/** Runs the reply up through the hooks of every step that was entered, then sends it. */
function send(x: LiveExchange, given: Reply, from: "step" | "surface"): void {
  try {
    const reply = given.refusal === undefined ? given : inShapeOfSurface(x, given);
    x.beginReply(reply.outcome);
    if (reply.reached !== undefined) x.record.reached = reply.reached;
    const head = new LiveResponseHead(reply, from, false);
    const running = runHooks(x, responseHeaders, head);
    if (running instanceof Promise) {
      afterHooks(x, running, () => endReply(x, head, reply.body));
    } else endReply(x, head, reply.body);
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
  // An exception is a bug of the surface, not of the step that refused.
  x.currentStep = undefined;
  const rendered = surface.renderRefusal({ ...reply, code, refusal }, x);
  return { ...reply, ...rendered, code };
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
  const bytes = filterBody(x, body);
  const length = byteLength(bytes);
  // 204 and 304 have no body and must not announce one (RFC 9110 section 8.6).
  if (head.status !== 204 && head.status !== 304) {
    head.fields.push("content-length", String(length));
  }
  writeHead(x, head);
  x.record.bodyBytes = length;
  // Text with as many characters as bytes is ASCII. latin1 writes it several µs faster (at 20 KB).
  const isAscii = typeof bytes === "string" && length === bytes.length;
  res.end(bytes ?? "", isAscii ? "latin1" : "utf8");
  if (res.writableLength > 0) x.watchForStall();
}

/** Writes the head of a reply or a stream. Throws for a head that HTTP does not allow. */
export function writeHead(x: LiveExchange, head: LiveResponseHead): void {
  closeIfUnread(x, head);
  if (x.wantsTrace) addTrace(x.record, head, x.runtime.clock.monotonic() - x.arrivedMonotonic);
  x.arrival.res.writeHead(head.status, head.fields);
  x.record.status = head.status;
  x.record.code = head.code;
}

function byteLength(body: Body): number {
  if (typeof body === "string") return Buffer.byteLength(body);
  return body === undefined ? 0 : body.length;
}

function filterBody(x: LiveExchange, body: Body): Body {
  if (x.compiled.responseChunk.length === 0 || body === undefined) return body;
  const chunk = { bytes: typeof body === "string" ? Buffer.from(body) : body };
  void runHooks(x, responseChunk, chunk);
  return chunk.bytes;
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

/** The way back up: response hooks, the head and body of a reply, and the end that runs exactly once. */
import { refuse } from "../errors.ts";
import type { Outcome, Reply } from "../plugin.ts";
import type { LiveExchange } from "./exchange.ts";
import { LiveResponseHead } from "./response-head.ts";

/** Sends a reply of known size through the hooks of every step that was entered. */
export function answer(x: LiveExchange, reply: Reply, from: "step" | "surface"): void {
  const head = new LiveResponseHead(reply, from, false);
  if (reply.outcome !== undefined) x.forcedOutcome = reply.outcome;
  const waiting = responseHeaders(x, head, 0);
  if (waiting === undefined) endOfReply(x, head, reply.body, 0);
  else void waiting.then(() => endOfReply(x, head, reply.body, 0));
}

/**
 * Runs the `responseHeaders` hooks from index `from`; a promise only when a hook returned one. It never rejects: a hook
 * that throws is a bug, logged, and turns the answer into a 500.
 */
export function responseHeaders(
  x: LiveExchange,
  head: LiveResponseHead,
  from: number,
): Promise<void> | undefined {
  const hooks = x.compiled.responseHeaders;
  for (let i = from; i < hooks.length; i++) {
    const step = hooks[i];
    if (step === undefined || step.depth >= x.entered || x.skips(step.depth)) continue;
    try {
      const waiting = step.hooks.responseHeaders(x, head);
      if (waiting === undefined) continue;
      return waiting.then(
        () => responseHeaders(x, head, i + 1),
        (error: unknown) => {
          broken(x, head, step.name, error);
          return responseHeaders(x, head, i + 1);
        },
      );
    } catch (error) {
      broken(x, head, step.name, error);
    }
  }
  return undefined;
}

function broken(x: LiveExchange, head: LiveResponseHead, step: string, error: unknown): void {
  x.runtime.log.error({ err: error, step, route: x.route.path }, "a responseHeaders hook failed");
  head.status = 500;
}

/**
 * Waits for the `responseEnd` hooks from index `from`, then writes the whole reply at once. No byte has left before:
 * a hook's own reply can still take the place of this one.
 */
function endOfReply(
  x: LiveExchange,
  head: LiveResponseHead,
  body: string | Uint8Array | undefined,
  from: number,
): void {
  const hooks = x.compiled.responseEnd;
  for (let i = from; i < hooks.length; i++) {
    const step = hooks[i];
    if (step === undefined || step.depth >= x.entered || x.skips(step.depth)) continue;
    let result: Reply | void | Promise<Reply | void>;
    try {
      result = step.hooks.responseEnd(x);
    } catch (error) {
      return crash(x, step.name, error);
    }
    if (result === undefined) continue;
    if (result instanceof Promise) {
      result.then(
        (reply) => {
          if (reply === undefined) endOfReply(x, head, body, i + 1);
          else replaced(x, reply, i + 1);
        },
        (error: unknown) => crash(x, step.name, error),
      );
      return;
    }
    return replaced(x, result, i + 1);
  }
  write(x, head, body);
}

/** A `responseEnd` hook refused: its reply goes up through the steps above it, which have not ended yet. */
function replaced(x: LiveExchange, reply: Reply, from: number): void {
  const head = new LiveResponseHead(reply, "step", false);
  x.repliedByStep = true;
  const waiting = responseHeaders(x, head, 0);
  if (waiting === undefined) endOfReply(x, head, reply.body, from);
  else void waiting.then(() => endOfReply(x, head, reply.body, from));
}

function write(
  x: LiveExchange,
  head: LiveResponseHead,
  body: string | Uint8Array | undefined,
): void {
  if (x.closed) return settle(x);
  const { res } = x.arrival;
  const bytes = filter(x, body);
  const length =
    typeof bytes === "string" ? Buffer.byteLength(bytes) : bytes === undefined ? 0 : bytes.length;
  // 204 and 304 have no body and must not announce one (RFC 9110 section 8.6).
  if (head.status !== 204 && head.status !== 304) {
    head.fields.push("content-length", String(length));
  }
  closeIfUnread(x, head);
  x.sent.status = head.status;
  x.sent.code = head.code;
  x.sent.bodyBytes = length;
  res.writeHead(head.status, head.fields);
  if (length === 0 || bytes === undefined) res.end();
  // As many bytes as characters: ASCII, which latin1 writes the same and several µs cheaper at 20 KB.
  else if (typeof bytes === "string" && length === bytes.length) res.end(bytes, "latin1");
  else res.end(bytes);
}

function filter(
  x: LiveExchange,
  body: string | Uint8Array | undefined,
): string | Uint8Array | undefined {
  const hooks = x.compiled.responseChunk;
  if (hooks.length === 0 || body === undefined) return body;
  return filterChunk(x, typeof body === "string" ? Buffer.from(body) : body);
}

/** Runs the `responseChunk` hooks over a chunk. */
export function filterChunk(x: LiveExchange, chunk: Uint8Array): Uint8Array {
  let current = chunk;
  for (const step of x.compiled.responseChunk) {
    if (step.depth >= x.entered || x.skips(step.depth)) continue;
    current = step.hooks.responseChunk(x, current) ?? current;
  }
  return current;
}

/** The most of an unread request body that is worth reading to keep a connection: above, the connection is closed. */
const drainableBytes = 64 * 1024;

/**
 * When the answer leaves before the request's body was read, what remains would have to be read to the end to find the
 * next request. A small rest is; a large or unknown one ends the connection.
 */
export function closeIfUnread(x: LiveExchange, head: LiveResponseHead): void {
  const { req } = x.arrival;
  if (req.complete || !x.request.hasBody) return;
  const announced = Number(req.headers["content-length"] ?? Infinity);
  const waitsForContinue = x.arrival.expectsContinue && !x.continued;
  if (announced > drainableBytes || waitsForContinue) head.set("connection", "close");
}

/** A plugin threw: a bug. The client gets a 500 with no detail, or a cut connection when the head has gone. */
export function crash(x: LiveExchange, plugin: string, error: unknown): void {
  x.runtime.log.error({ err: error, plugin, route: x.route.path }, "a plugin failed");
  if (x.closed) return settle(x);
  if (x.arrival.res.headersSent || x.streaming) {
    return x.cutOff("upstreamFailed");
  }
  if (x.crashed) {
    // The reply to the first crash met another one on its way up: send it without hooks.
    const reply = refuse("GATEWAY_INTERNAL_ERROR");
    return write(x, new LiveResponseHead(reply, "step", false), reply.body);
  }
  x.crashed = true;
  x.repliedByStep = true;
  answer(x, refuse("GATEWAY_INTERNAL_ERROR"), "step");
}

/** Runs the `settled` hooks once the response is closed and the surface has returned. */
export function settle(x: LiveExchange): void {
  if (x.settledRan || !x.closed || x.surfaceBusy) return;
  x.settledRan = true;
  const outcome = outcomeOf(x);
  for (const step of x.compiled.settled) {
    if (step.depth >= x.entered || x.skips(step.depth)) continue;
    try {
      step.hooks.settled(x, outcome);
    } catch (error) {
      x.runtime.log.error({ err: error, step: step.name }, "a settled hook failed");
    }
  }
  const seconds = (x.runtime.clock.monotonic() - x.arrivedMonotonic) / 1000;
  x.compiled.stats.settled(x.sent.status, x.sent.code, outcome, seconds);
  x.finished();
}

function outcomeOf(x: LiveExchange): Outcome {
  if (x.clientLeft) return "clientLeft";
  if (x.forcedOutcome !== undefined) return x.forcedOutcome;
  return x.repliedByStep ? "replied" : "complete";
}

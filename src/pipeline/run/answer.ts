/** The way back up: response hooks, the head and body of a reply, and the end that runs exactly once. */
import { refuse } from "../../errors.ts";
import type { Outcome, Reply } from "../../plugin.ts";
import type { PlacedStep } from "../load/compile.ts";
import type { LiveExchange } from "./exchange.ts";
import { LiveResponseHead } from "./response-head.ts";
import { forgiven, shadowed } from "./shadow.ts";
import { inTime, StepTimeout } from "./step-limit.ts";
import { startTime, stopTime } from "../observe/step-stats.ts";
import { addTrace } from "../observe/trace-header.ts";

type Body = string | Uint8Array | undefined;

/** Sends a reply of known size through the hooks of every step that was entered. Never throws. */
export function answer(x: LiveExchange, reply: Reply, from: "step" | "surface"): void {
  let head: LiveResponseHead;
  try {
    if (reply.outcome !== undefined) x.forcedOutcome = reply.outcome;
    if (reply.reached !== undefined) x.reached = reply.reached;
    head = new LiveResponseHead(reply, from, false);
  } catch (error) {
    // A plugin written in JavaScript can return anything, `null` for example.
    return crash(x, error);
  }
  ascend(x, head, reply.body, 0);
}

/** Runs the response hooks over a head, then those of the end from index `end`, then sends. */
function ascend(x: LiveExchange, head: LiveResponseHead, body: Body, end: number): void {
  try {
    const waiting = responseHeaders(x, head, 0);
    if (waiting === undefined) endOfReply(x, head, body, end);
    else
      guard(
        x,
        waiting.then(() => endOfReply(x, head, body, end)),
      );
  } catch (error) {
    crash(x, error);
  }
}

/** A rejected promise is the failure of its exchange, never of the process. */
export function guard(x: LiveExchange, work: Promise<unknown>): void {
  work.catch((error: unknown) => crash(x, error));
}

/**
 * Calls a function that a plugin has left for an event: a message, room to write, the client's leaving. Nothing above
 * it on the stack could handle an exception, so what it throws (or rejects with) fails its exchange alone. Use it for
 * every call of plugin code from a socket, a timer or a signal.
 */
export function runCallback<A extends readonly unknown[]>(
  x: LiveExchange,
  callback: ((...args: A) => unknown) | undefined,
  ...args: A
): void {
  if (callback === undefined) return;
  try {
    const result = callback(...args);
    if (result instanceof Promise) result.catch((error: unknown) => callbackFailed(x, error));
  } catch (error) {
    callbackFailed(x, error);
  }
}

/** A surface whose callback has failed may never return, and `settled` must not wait for it. */
export function callbackFailed(x: LiveExchange, error: unknown): void {
  x.at = undefined;
  surfaceReturned(x);
  crash(x, error);
}

/** The surface has returned, or is not waited for any more. */
export function surfaceReturned(x: LiveExchange): void {
  x.surfaceBusy = false;
  if (x.closed) x.runtime.surfaceWatch.remove(x);
}

/**
 * Runs the `responseHeaders` hooks from index `from`; a promise only when a hook returned one. Throws, or rejects, with
 * what a hook threw.
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
    x.at = step;
    let waiting: void | Promise<void>;
    try {
      waiting = step.hooks.responseHeaders(x, head);
    } catch (error) {
      if (!forgiven(x, step, error)) throw error;
      continue;
    }
    if (waiting === undefined) continue;
    return inTime(x, step, "responseHeaders", waiting).then(
      () => responseHeaders(x, head, i + 1),
      (error: unknown) => {
        x.at = step;
        if (!forgiven(x, step, error)) throw error;
        return responseHeaders(x, head, i + 1);
      },
    );
  }
  return undefined;
}

/**
 * Waits for the `responseEnd` hooks from index `from`, then writes the whole reply at once. No byte has left before:
 * a hook's own reply can still take the place of this one.
 */
function endOfReply(x: LiveExchange, head: LiveResponseHead, body: Body, from: number): void {
  const hooks = x.compiled.responseEnd;
  for (let i = from; i < hooks.length; i++) {
    const step = hooks[i];
    if (step === undefined || step.depth >= x.entered || x.skips(step.depth)) continue;
    x.at = step;
    let result: Reply | void | Promise<Reply | void>;
    const since = startTime(x);
    try {
      result = step.hooks.responseEnd(x, x.forcedOutcome);
    } catch (error) {
      if (!forgiven(x, step, error)) throw error;
      continue;
    }
    if (!(result instanceof Promise)) {
      stopTime(x, step.depth, since);
      if (result === undefined || shadowed(x, step, result)) continue;
      return replaced(x, step, result, i + 1);
    }
    inTime(x, step, "responseEnd", result).then(
      (reply) => {
        stopTime(x, step.depth, since);
        goOn(x, head, body, step, i + 1, reply);
      },
      (error: unknown) => {
        x.at = step;
        if (forgiven(x, step, error)) goOn(x, head, body, step, i + 1);
        else crash(x, error);
      },
    );
    return;
  }
  send(x, head, body);
}

/** Behind a hook that waited, with its reply if it gave one. What throws there is the exchange's failure. */
function goOn(
  x: LiveExchange,
  head: LiveResponseHead,
  body: Body,
  step: PlacedStep,
  end: number,
  reply?: Reply | void,
): void {
  try {
    if (reply === undefined || shadowed(x, step, reply)) endOfReply(x, head, body, end);
    else replaced(x, step, reply, end);
  } catch (error) {
    crash(x, error);
  }
}

/** A `responseEnd` hook refused: its reply goes up through the steps above it, which have not ended yet. */
function replaced(x: LiveExchange, step: PlacedStep, reply: Reply, end: number): void {
  x.repliedByStep = true;
  x.repliedDepth = step.depth;
  if (reply.reached !== undefined) x.reached = reply.reached;
  ascend(x, new LiveResponseHead(reply, "step", false), reply.body, end);
}

/** Throws for a head that HTTP does not allow: a status or a header value of a plugin's making. */
function send(x: LiveExchange, head: LiveResponseHead, body: Body): void {
  if (x.closed) return settle(x);
  const { res } = x.arrival;
  const bytes = filter(x, body);
  const length = byteLength(bytes);
  // 204 and 304 have no body and must not announce one (RFC 9110 section 8.6).
  if (head.status !== 204 && head.status !== 304) {
    head.fields.push("content-length", String(length));
  }
  closeIfUnread(x, head);
  if (x.wantsTrace) addTrace(x, head);
  res.writeHead(head.status, head.fields);
  x.sent.status = head.status;
  x.sent.code = head.code;
  x.sent.bodyBytes = length;
  // As many bytes as characters: ASCII, which latin1 writes the same and several µs cheaper at 20 KB.
  const isAscii = typeof bytes === "string" && length === bytes.length;
  res.end(bytes ?? "", isAscii ? "latin1" : "utf8");
  if (res.writableLength > 0) x.watchReader();
}

function byteLength(body: Body): number {
  if (typeof body === "string") return Buffer.byteLength(body);
  return body === undefined ? 0 : body.length;
}

function filter(x: LiveExchange, body: Body): Body {
  const hooks = x.compiled.responseChunk;
  if (hooks.length === 0 || body === undefined) return body;
  return filterChunk(x, typeof body === "string" ? Buffer.from(body) : body);
}

/** Runs the `responseChunk` hooks over a chunk; throws what a hook throws. */
export function filterChunk(x: LiveExchange, chunk: Uint8Array): Uint8Array {
  let current = chunk;
  for (const step of x.compiled.responseChunk) {
    if (step.depth >= x.entered || x.skips(step.depth)) continue;
    x.at = step;
    try {
      current = step.hooks.responseChunk(x, current) ?? current;
    } catch (error) {
      if (!forgiven(x, step, error)) throw error;
    }
  }
  return current;
}

/** The most bytes of an unread request body that are worth reading to keep a connection: above, it is closed. */
const drainableBytes = 64 * 1024;

/**
 * When the answer leaves before the request's body was read, what remains would have to be read to the end to find the
 * next request. A small rest is; a large or unknown one ends the connection.
 */
export function closeIfUnread(x: LiveExchange, head: LiveResponseHead): void {
  const { req, body } = x.arrival;
  if (Buffer.isBuffer(body) || body.complete || !x.request.hasBody) return;
  const announced = Number(req.headers["content-length"] ?? Infinity);
  const waitsForContinue = x.arrival.expectsContinue && !x.continued;
  if (announced > drainableBytes || waitsForContinue) head.set("connection", "close");
}

/**
 * The plugin at which the exchange is (`x.at`, else its surface) threw: a bug. The client gets a 500 with no detail, or
 * a cut connection when the head has gone. Never throws.
 */
export function crash(x: LiveExchange, error: unknown): void {
  const { at, runtime, route, arrival } = x;
  if (!(error instanceof StepTimeout)) {
    const plugin = at?.name ?? route.surface;
    const requestId = x.peek("requestId");
    runtime.log.error({ err: error, plugin, route: route.path, requestId }, "a plugin failed");
  }
  if (x.closed) return settle(x);
  if (arrival.res.headersSent || x.streaming) return x.cutOff("upstreamFailed");
  x.repliedByStep = true;
  x.brokenDepth = at?.depth;
  if (!x.crashed) {
    x.crashed = true;
    // Once more up the list, without the hooks of the step that is broken.
    return answer(x, refuse("GATEWAY_INTERNAL_ERROR"), "step");
  }
  try {
    const { status, headers, body } = refuse("GATEWAY_INTERNAL_ERROR");
    x.sent.status = status;
    arrival.res.writeHead(status, headers?.slice());
    arrival.res.end(body ?? "", "utf8");
  } catch {
    x.cutOff("upstreamFailed");
  }
}

/** Runs the `settled` hooks once the response is closed and the surface has returned. */
export function settle(x: LiveExchange): void {
  if (x.settledRan || !x.closed || x.surfaceBusy) return;
  x.settledRan = true;
  const outcome = outcomeOf(x);
  // An answer with HTTP status 200 can carry calls that were refused: observers see their code as any other.
  x.sent.code ??= x.calls?.code;
  for (const step of x.compiled.settled) {
    if (step.depth >= x.entered || x.conditionSkips(step.depth)) continue;
    try {
      step.hooks.settled(x, outcome);
    } catch (error) {
      x.runtime.log.error(
        { err: error, step: step.name, requestId: x.peek("requestId") },
        "a settled hook failed",
      );
    }
  }
  try {
    account(x, outcome);
  } catch (error) {
    x.runtime.log.error(
      { err: error, route: x.route.path },
      "cannot record the outcome of an exchange",
    );
  } finally {
    x.finished();
  }
}

/** Metrics, the dashboard's numbers and what `sluice explain` shows. */
function account(x: LiveExchange, outcome: Outcome): void {
  const seconds = (x.runtime.clock.monotonic() - x.arrivedMonotonic) / 1000;
  x.compiled.stats.settled(x.sent.status, x.sent.code, outcome, seconds);
  if (x.sent.code !== undefined) x.compiled.stepStats.refused(x.repliedDepth, x.sent.code);
  if (x.times !== undefined) x.compiled.stepStats.ended(x.times);
  x.runtime.activity?.settled(x, seconds * 1000);
  x.runtime.stories?.settled(x, outcome, seconds * 1000);
}

function outcomeOf(x: LiveExchange): Outcome {
  if (x.clientLeft) return "clientLeft";
  if (x.forcedOutcome !== undefined) return x.forcedOutcome;
  return x.repliedByStep ? "replied" : "complete";
}

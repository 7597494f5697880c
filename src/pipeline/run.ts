/**
 * Runs an exchange down its route to the surface. The way back up is in `answer.ts`.
 * Everything stays synchronous until a plugin returns a promise, so a route of synchronous hooks costs no promise.
 */
import { refuse } from "../errors.ts";
import type { Reply } from "../plugin.ts";
import { readBody, type BodyResult } from "../stream/body.ts";
import { answer, crash, settle } from "./answer.ts";
import { holds, type PlacedStep } from "./compile.ts";
import type { LiveExchange } from "./exchange.ts";
import type { ExchangeResponse } from "./response.ts";

/** Starts the exchange. Whatever happens, `settled` hooks run exactly once at its end. */
export function run(x: LiveExchange): void {
  const { conditional } = x.compiled;
  if (conditional.length > 0) {
    const skipped = conditional.filter(
      (step) => step.when !== undefined && !holds(step.when, x.request),
    );
    if (skipped.length > 0) x.skipped = new Set(skipped.map((step) => step.depth));
  }
  const { res } = x.arrival;
  res.exchange = x;
  res.on("close", onClose);
  requestHeaders(x, 0);
}

/** The response has ended or its client has gone: both arrive here, once. */
function onClose(this: ExchangeResponse): void {
  const x = this.exchange;
  if (x === undefined) return;
  x.closed = true;
  x.runtime.bodyWatch.remove(x);
  if (!x.arrival.res.writableFinished) {
    x.clientLeft = !x.cut;
    x.abort();
  }
  settle(x);
}

function requestHeaders(x: LiveExchange, from: number): void {
  const hooks = x.compiled.requestHeaders;
  for (let i = from; i < hooks.length; i++) {
    const step = hooks[i];
    if (step === undefined || x.skips(step.depth)) continue;
    x.entered = step.depth + 1;
    try {
      const result = step.hooks.requestHeaders(x);
      if (result === undefined) continue;
      if (result instanceof Promise) {
        result.then(
          (reply) => replied(x, step, reply) || requestHeaders(x, i + 1),
          (error: unknown) => crash(x, step.name, error),
        );
        return;
      }
      if (replied(x, step, result)) return;
    } catch (error) {
      return crash(x, step.name, error);
    }
  }
  x.entered = x.compiled.steps.length;
  if (x.compiled.bodyBytes === undefined) enterSurface(x);
  else beginBody(x, x.compiled.bodyBytes);
}

/** Sends a step's own reply, unless the step only shadows. True when the way down ends here. */
function replied(x: LiveExchange, step: PlacedStep, reply: Reply | void): boolean {
  if (x.closed) {
    settle(x);
    return true;
  }
  if (reply === undefined) return false;
  if (step.shadow) {
    step.shadowRefusals.add(1);
    x.runtime.log.info(
      { step: step.name, route: x.route.path, status: reply.status, code: reply.code },
      "shadow: would have replied",
    );
    return false;
  }
  x.repliedByStep = true;
  answer(x, reply, "step");
  return true;
}

function beginBody(x: LiveExchange, capBytes: number): void {
  const { mediaTypes } = x.compiled;
  if (mediaTypes !== undefined && !accepts(mediaTypes, x.request.headers["content-type"])) {
    return reject(x, 415, `content-type must be ${mediaTypes.join(" or ")}`);
  }
  x.sendContinue();
  x.runtime.bodyWatch.add(x);
  readBody(x.arrival.req, capBytes, x, bodyRead);
}

function bodyRead(x: LiveExchange, result: BodyResult): void {
  x.runtime.bodyWatch.remove(x);
  if (x.closed) return;
  if (result.kind === "tooLarge") {
    return reject(x, 413, `the body is larger than ${x.compiled.bodyBytes} bytes`);
  }
  x.body = result.body;
  requestBody(x, 0);
}

/** What the core itself refuses between the steps and the surface. */
export function reject(x: LiveExchange, status: number, message: string): void {
  x.repliedByStep = true;
  answer(x, refuse("GATEWAY_INVALID_PARAMS", { status, message }), "step");
}

/** Media types are compared without parameters and case (RFC 9110 section 8.3.1). */
function accepts(types: readonly string[], header: string | undefined): boolean {
  if (header === undefined) return false;
  if (types.includes(header)) return true;
  const end = header.indexOf(";");
  const type = (end === -1 ? header : header.slice(0, end)).trim().toLowerCase();
  return types.includes(type);
}

function requestBody(x: LiveExchange, from: number): void {
  const hooks = x.compiled.requestBody;
  for (let i = from; i < hooks.length; i++) {
    const step = hooks[i];
    if (step === undefined || x.skips(step.depth)) continue;
    try {
      const result = step.hooks.requestBody(x, x.body ?? Buffer.alloc(0));
      if (result === undefined) continue;
      if (result instanceof Promise) {
        result.then(
          (reply) => replied(x, step, reply) || requestBody(x, i + 1),
          (error: unknown) => crash(x, step.name, error),
        );
        return;
      }
      if (replied(x, step, result)) return;
    } catch (error) {
      return crash(x, step.name, error);
    }
  }
  enterSurface(x);
}

function enterSurface(x: LiveExchange): void {
  x.surfaceBusy = true;
  try {
    const result = x.compiled.surface.answer(x);
    if (result instanceof Promise) {
      result.then(
        (reply) => surfaceDone(x, reply),
        (error: unknown) => surfaceFailed(x, error),
      );
    } else surfaceDone(x, result);
  } catch (error) {
    surfaceFailed(x, error);
  }
}

function surfaceDone(x: LiveExchange, reply: Reply | undefined): void {
  x.surfaceBusy = false;
  if (x.closed) settle(x);
  else if (reply !== undefined) answer(x, reply, "surface");
  else if (!x.streaming) surfaceFailed(x, new Error("the surface neither replied nor streamed"));
}

function surfaceFailed(x: LiveExchange, error: unknown): void {
  x.surfaceBusy = false;
  if (x.closed) {
    x.runtime.log.error(
      { err: error, route: x.route.path },
      "a surface failed after its client left",
    );
    settle(x);
  } else crash(x, x.route.surface, error);
}

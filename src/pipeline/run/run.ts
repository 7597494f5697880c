/**
 * Runs an exchange down its route to the surface. The way back up is in `answer.ts`.
 * Everything stays synchronous until a plugin returns a promise, so a route of synchronous hooks costs no promise.
 */
import { excessReasons, refuse, statusReasons, type RefuseOptions } from "../../errors.ts";
import { maxJsonDepth, maxJsonParts, type JsonExcess } from "../../json-bounds.ts";
import type { Reply } from "../../plugin.ts";
import {
  abandonBody,
  readBody,
  tooLarge,
  type BodyListener,
  type BodyResult,
} from "../../http/body.ts";
import { offeredSubprotocols } from "../../http/subprotocols.ts";
import { answer, crash, guard, settle, surfaceReturned } from "./answer.ts";
import { answerOf } from "./around.ts";
import { holds, type CompiledRoute, type PlacedStep } from "../load/compile.ts";
import type { LiveExchange } from "./exchange.ts";
import { forgiven, shadowed } from "./shadow.ts";
import { inTime } from "./step-limit.ts";
import { startTime, stopTime } from "../observe/step-stats.ts";
import { UpgradeFailed } from "./upgrade-failed.ts";

/** Starts the exchange. Whatever happens, `settled` hooks run exactly once at its end. */
export function run(x: LiveExchange): void {
  x.arrival.res.begin(x);
  try {
    const { conditional } = x.compiled;
    if (conditional.length > 0) {
      const skipped = conditional.filter(
        (step) => step.when !== undefined && !holds(step.when, x.request),
      );
      if (skipped.length > 0) x.skipped = new Set(skipped.map((step) => step.depth));
    }
    descend(x, headersPhase, 0);
  } catch (error) {
    crash(x, error);
  }
}

/** Nothing more is sent. `whole`: all of the answer was. */
export function ended(x: LiveExchange, whole: boolean): void {
  x.closed = true;
  x.runtime.bodyWatch.remove(x);
  if (!whole) {
    x.clientLeft = !x.cut;
    x.abort();
  }
  if (x.surfaceBusy) x.runtime.surfaceWatch.add(x);
  settle(x);
}

/** One way down the list: which hooks, how one is called, and what follows when all have let the exchange pass. */
interface Descent<Placed extends PlacedStep> {
  readonly name: "requestHeaders" | "requestBody";
  hooks(compiled: CompiledRoute): readonly Placed[];
  call(step: Placed, x: LiveExchange): Reply | void | Promise<Reply | void>;
  next(x: LiveExchange): void;
}

const headersPhase: Descent<CompiledRoute["requestHeaders"][number]> = {
  name: "requestHeaders",
  hooks: (compiled) => compiled.requestHeaders,
  call(step, x) {
    x.entered = step.depth + 1;
    return step.hooks.requestHeaders(x);
  },
  next(x) {
    x.entered = x.compiled.steps.length;
    if (x.compiled.bodyBytes === undefined) enterSurface(x);
    else beginBody(x, x.compiled.bodyBytes);
  },
};

const noBody = Buffer.alloc(0);

const bodyPhase: Descent<CompiledRoute["requestBody"][number]> = {
  name: "requestBody",
  hooks: (compiled) => compiled.requestBody,
  call: (step, x) => step.hooks.requestBody(x, x.body ?? noBody),
  next: enterSurface,
};

function descend<P extends PlacedStep>(x: LiveExchange, phase: Descent<P>, from: number): void {
  const hooks = phase.hooks(x.compiled);
  for (let i = from; i < hooks.length; i++) {
    const step = hooks[i];
    if (step === undefined || x.skips(step.depth)) continue;
    x.at = step;
    let result: Reply | void | Promise<Reply | void>;
    const since = startTime(x);
    try {
      result = phase.call(step, x);
    } catch (error) {
      if (forgiven(x, step, error)) continue;
      return crash(x, error);
    }
    if (result instanceof Promise) return later(x, phase, step, i + 1, result, since);
    stopTime(x, step.depth, since);
    if (result !== undefined && replied(x, step, result)) return;
  }
  x.at = undefined;
  phase.next(x);
}

function later<P extends PlacedStep>(
  x: LiveExchange,
  phase: Descent<P>,
  step: P,
  next: number,
  result: Promise<Reply | void>,
  since: number,
): void {
  guard(
    x,
    inTime(x, step, phase.name, result).then(
      (reply) => {
        stopTime(x, step.depth, since);
        if (!replied(x, step, reply)) descend(x, phase, next);
      },
      (error: unknown) => {
        x.at = step;
        if (!forgiven(x, step, error)) throw error;
        if (!replied(x, step, undefined)) descend(x, phase, next);
      },
    ),
  );
}

/** Sends a step's own reply, unless the step only shadows. True when the way down ends here. */
function replied(x: LiveExchange, step: PlacedStep, reply: Reply | void): boolean {
  if (x.closed) {
    settle(x);
    return true;
  }
  if (reply === undefined || shadowed(x, step, reply)) return false;
  x.repliedByStep = true;
  x.repliedDepth = step.depth;
  answer(x, reply, "step");
  return true;
}

function beginBody(x: LiveExchange, capBytes: number): void {
  const { mediaTypes } = x.compiled;
  if (mediaTypes !== undefined && !accepts(mediaTypes, x.request.headers["content-type"])) {
    return reject(x, 415, `content-type must be ${mediaTypes.join(" or ")}`);
  }
  const { body } = x.arrival;
  if (Buffer.isBuffer(body)) {
    return bodyRead(x, body.length > capBytes ? tooLarge : { kind: "body", body });
  }
  const refusal = x.request.hasBody ? x.runtime.bodyWatch.admit(x) : undefined;
  if (refusal !== undefined) return replyToBody(x, refusal);
  x.sendContinue();
  readBody(body, capBytes, x, bodyListener);
}

const bodyListener: BodyListener<LiveExchange> = {
  received: (x, bytes) => x.runtime.bodyWatch.received(x, bytes),
  done: bodyRead,
};

function bodyRead(x: LiveExchange, result: BodyResult): void {
  x.runtime.bodyWatch.remove(x);
  // The body watch may have answered meanwhile.
  if (x.closed || x.repliedByStep) return;
  if (result.kind === "tooLarge") {
    const { bodyBytes, tooLargeStatus } = x.compiled;
    const details = { reason: statusReasons[413] };
    return reject(x, tooLargeStatus, `the body is larger than ${bodyBytes} bytes`, { details });
  }
  const excess = x.compiled.readsJson ? x.exceeds(result.body) : undefined;
  if (excess !== undefined) return reject(x, 400, ...excessive[excess]);
  x.body = result.body;
  descend(x, bodyPhase, 0);
}

/** Message and details of the refusal of JSON beyond a bound. */
const excessive: Readonly<Record<JsonExcess, [string, RefuseOptions]>> = {
  parts: [
    `the body has more than ${maxJsonParts} members and elements`,
    { details: { reason: excessReasons.parts } },
  ],
  depth: [
    `the body is nested deeper than ${maxJsonDepth} levels`,
    { details: { reason: excessReasons.depth } },
  ],
};

/** The client stopped sending in the middle of its body. */
export function bodyTimedOut(x: LiveExchange): void {
  x.forcedOutcome = "timedOut";
  if (x.streaming || x.compiled.bodyBytes === undefined) return x.cutOff("timedOut");
  // RFC 9110 section 15.5.9: the connection is of no more use.
  const headers = ["connection", "close"];
  const message = "the request body arrived too slowly";
  bodyRefused(x, refuse("GATEWAY_INVALID_PARAMS", { status: 408, message, headers }));
}

/** Ends an exchange whose body is not read to its end. What has come of the body is dropped. */
export function bodyRefused(x: LiveExchange, reply: Reply): void {
  const { body } = x.arrival;
  if (!Buffer.isBuffer(body)) abandonBody(body);
  replyToBody(x, reply);
}

function replyToBody(x: LiveExchange, reply: Reply): void {
  x.repliedByStep = true;
  answer(x, reply, "step");
}

/** What the core itself refuses between the steps and the surface. */
function reject(
  x: LiveExchange,
  status: number,
  message: string,
  options: Pick<RefuseOptions, "details"> = {},
): void {
  replyToBody(x, refuse("GATEWAY_INVALID_PARAMS", { ...options, status, message }));
}

/** Media types are compared without parameters and case (RFC 9110 section 8.3.1). */
function accepts(types: readonly string[], header: string | undefined): boolean {
  if (header === undefined) return false;
  if (types.includes(header)) return true;
  const end = header.indexOf(";");
  const type = (end === -1 ? header : header.slice(0, end)).trim().toLowerCase();
  return types.includes(type);
}

const upgradeRequired = refuse("GATEWAY_INVALID_PARAMS", {
  status: 426,
  message: "this route takes WebSocket connections only",
  headers: ["upgrade", "websocket", "sec-websocket-version", "13"],
});

const invalidSubprotocols = refuse("GATEWAY_INVALID_PARAMS", {
  message: "expected Sec-WebSocket-Protocol to list different names, separated by commas",
});

/** The refusal of a request that cannot become a WebSocket, on a route that serves nothing else. */
function refuseUpgrade(x: LiveExchange): Reply | undefined {
  if (x.arrival.upgrade === undefined) return upgradeRequired;
  const offered = offeredSubprotocols(x.request.headers["sec-websocket-protocol"]);
  return offered === undefined ? invalidSubprotocols : undefined;
}

function enterSurface(x: LiveExchange): void {
  const refusal = x.compiled.config.websocket ? refuseUpgrade(x) : undefined;
  if (refusal !== undefined) {
    x.repliedByStep = true;
    return answer(x, refusal, "step");
  }
  x.surfaceBusy = true;
  x.surfaceAsked = true;
  let result: Reply | undefined | Promise<Reply | undefined>;
  const since = startTime(x);
  try {
    result = answerOf(x);
  } catch (error) {
    return surfaceFailed(x, error);
  }
  if (!(result instanceof Promise)) return surfaceDone(x, result, since);
  result.then(
    (reply) => surfaceDone(x, reply, since),
    (error: unknown) => surfaceFailed(x, error),
  );
}

/** Throws nothing: `answer` turns whatever fails on the way up into a 500. */
function surfaceDone(x: LiveExchange, reply: Reply | undefined, since: number): void {
  stopTime(x, x.compiled.steps.length, since);
  surfaceReturned(x);
  if (x.closed) settle(x);
  else if (reply !== undefined) answer(x, reply, x.repliedByStep ? "step" : "surface");
  else if (!x.streaming) crash(x, new Error("the surface neither replied nor streamed"));
}

function surfaceFailed(x: LiveExchange, error: unknown): void {
  surfaceReturned(x);
  if (!(error instanceof UpgradeFailed)) return crash(x, error);
  if (x.closed || error.reply === undefined) return settle(x);
  x.repliedByStep = true;
  answer(x, error.reply, "step");
}

/** Runs an exchange down to the surface, and back up. Everything is synchronous until a plugin returns a promise. */
import { refuse } from "../../base/errors.ts";
import { offeredSubprotocols } from "../../message/subprotocols.ts";
import type { Outcome, Reply } from "../../plugin.ts";
import { matchesCondition, type CompiledRoute } from "./compile.ts";
import { answerOf } from "./around.ts";
import type { LiveExchange } from "./exchange.ts";
import { admitMessage } from "./admit-message.ts";
import { requestBody, requestHeaders, settled, type HookPhase } from "./hook-phases.ts";
import { runHooks } from "./hooks.ts";
import {
  afterHooks,
  fail,
  failCallback,
  replyFromCore,
  replyFromStep,
  replyFromSurface,
} from "./reply.ts";
import { RequestBodyReader } from "./request-body.ts";
import { UpgradeFailed, type Runner } from "./runtime.ts";
import { openSink } from "./sink.ts";

export const runner: Runner<LiveExchange> = { openSink, admitMessage, failCallback, settle };

/** Whatever happens, the `settled` hooks run exactly once at the end of the exchange. */
export function run(x: LiveExchange): void {
  x.arrival.res.begin(x);
  try {
    const { conditional } = x.compiled;
    if (conditional.length > 0) {
      const skipped = conditional.filter(
        (step) => step.when !== undefined && !matchesCondition(step.when, x.request),
      );
      if (skipped.length > 0) x.record.skipped = new Set(skipped.map((step) => step.depth));
    }
    descend(x, requestHeaders, readBody);
  } catch (error) {
    fail(x, error);
  }
}

function descend(
  x: LiveExchange,
  phase: HookPhase<undefined>,
  next: (x: LiveExchange) => void,
): void {
  let result: ReturnType<typeof runHooks>;
  try {
    result = runHooks(x, phase, undefined);
  } catch (error) {
    return fail(x, error);
  }
  if (result instanceof Promise) afterHooks(x, result, (reply) => continueWith(x, reply, next));
  else continueWith(x, result, next);
}

function continueWith(
  x: LiveExchange,
  reply: Reply | undefined,
  next: (x: LiveExchange) => void,
): void {
  if (x.hasEnded) return;
  if (reply === undefined) next(x);
  else replyFromStep(x, reply);
}

function readBody(x: LiveExchange): void {
  const { steps, bodyBytes } = x.compiled;
  x.record.enteredSteps = steps.length;
  if (bodyBytes === undefined) enterSurface(x);
  else bodies.begin(x, bodyBytes);
}

const bodies = new RequestBodyReader((x) => {
  if (normalizeBody(x)) descend(x, requestBody, enterSurface);
});

/** Brings the body into the form that the surface reads, before steps read it. Returns false if the exchange has failed. */
function normalizeBody(x: LiveExchange): boolean {
  const normalize = x.compiled.surface.body?.normalize;
  if (normalize === undefined) return true;
  const json = x.json();
  if (!json.ok) return true;
  try {
    const value = normalize(json.value);
    if (value !== json.value) x.replaceBody(Buffer.from(JSON.stringify(value)));
    return true;
  } catch (error) {
    fail(x, error);
    return false;
  }
}

function enterSurface(x: LiveExchange): void {
  const refusal = x.compiled.config.websocket ? refuseUpgrade(x) : undefined;
  if (refusal !== undefined) return replyFromCore(x, refusal);
  x.enterSurface();
  let result: ReturnType<typeof answerOf>;
  try {
    result = answerOf(x);
  } catch (error) {
    return surfaceFailed(x, error);
  }
  if (!(result instanceof Promise)) return surfaceAnswered(x, result);
  result.then(
    (reply) => surfaceAnswered(x, reply),
    (error: unknown) => surfaceFailed(x, error),
  );
}

/** Never throws, because replies never throw. */
function surfaceAnswered(x: LiveExchange, reply: Reply | undefined): void {
  x.surfaceReturned();
  if (x.hasEnded) return;
  if (reply !== undefined) replyFromSurface(x, reply);
  else if (!x.isStreaming) fail(x, new Error("the surface neither replied nor streamed"));
  // The surface may have left its sink to a callback, but not for long.
  else if (!x.hasClosedStream && x.arrival.upgrade === undefined) x.runtime.surfaceWatch.add(x);
}

function surfaceFailed(x: LiveExchange, error: unknown): void {
  if (!(error instanceof UpgradeFailed)) fail(x, error);
  else if (!x.hasEnded && error.reply !== undefined) replyFromCore(x, error.reply);
  x.surfaceReturned();
}

function upgradeRequired({ httpMethods }: CompiledRoute): Reply {
  const also = httpMethods === "" ? "" : `; requests over HTTP use ${httpMethods}`;
  return refuse("GATEWAY_INVALID_PARAMS", {
    status: 426,
    message: `this route accepts only WebSocket connections${also}`,
    headers: ["upgrade", "websocket", "sec-websocket-version", "13"],
  });
}

const invalidSubprotocols = refuse("GATEWAY_INVALID_PARAMS", {
  message: "expected Sec-WebSocket-Protocol to list different names, separated by commas",
});

/** Returns the refusal of a request that cannot become a WebSocket, on a route that serves only WebSockets. */
function refuseUpgrade(x: LiveExchange): Reply | undefined {
  if (x.arrival.upgrade === undefined) return upgradeRequired(x.compiled);
  const offered = offeredSubprotocols(x.request.headers["sec-websocket-protocol"]);
  return offered === undefined ? invalidSubprotocols : undefined;
}

/** Ends an exchange: its `settled` hooks, then its observers. Runs once per exchange. Never throws. */
function settle(x: LiveExchange, outcome: Outcome): void {
  const { record, runtime, compiled } = x;
  // An answer with HTTP status 200 can carry calls that were refused. Observers see their code like any other.
  record.code ??= record.calls?.code;
  if (record.code !== undefined) record.reason ??= record.reached?.scope;
  void runHooks(x, settled, outcome);
  record.ms = runtime.clock.monotonic() - x.arrivedMonotonic;
  const { status, code, times, repliedDepth, failedDepth = repliedDepth } = record;
  compiled.stats.settled(x.request.method, status, code, outcome, record.ms / 1000);
  if (code !== undefined) compiled.stepStats.refused(failedDepth ?? Infinity, code);
  if (times !== undefined) compiled.stepStats.ended(times);
  for (const observer of runtime.observers) {
    try {
      observer(record);
    } catch (error) {
      const message = "an observer of exchanges failed";
      runtime.log.error({ err: error, route: x.route.path }, message);
    }
  }
}

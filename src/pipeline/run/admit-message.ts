import { refuse } from "../../base/errors.ts";
import { isObject } from "../../base/is-object.ts";
import type { Awaitable, Reply } from "../../plugin.ts";
import type { PlacedStep } from "./compile.ts";
import type { LiveExchange } from "./exchange.ts";
import type { HookPhase } from "./hook-phases.ts";
import { runHooks } from "./hooks.ts";
import { countFailure, isFailureIgnored } from "./step-failures.ts";

/** Runs for each message of a WebSocket, and not once per exchange as the phases do. */
const message: HookPhase<number> = {
  name: "message",
  mayReply: true,
  enters: false,
  includesFailed: false,
  argument: undefined,
  accept: undefined,
  ignoresFailure(x, step, error) {
    if (isFailureIgnored(x, step, error)) return true;
    // The error does not reach `fail`, because it ends the message and not the exchange.
    logMessage(x, step, error);
    return false;
  },
};

/** Implements `Exchange.admit`. A hook that fails refuses its message only. Never throws or rejects. */
export function admitMessage(x: LiveExchange): Awaitable<Reply | undefined> {
  if (x.compiled.message.length === 0) return undefined;
  try {
    const result = runHooks(x, message, x.runtime.clock.monotonic());
    if (!(result instanceof Promise)) return admitted(x, result);
    return result.then(
      (reply) => admitted(x, reply),
      () => messageFailed(x),
    );
  } catch {
    return messageFailed(x);
  }
}

function admitted(x: LiveExchange, reply: Reply | undefined): Reply | undefined {
  const { currentStep } = x;
  x.currentStep = undefined;
  if (reply === undefined) return undefined;
  // A plugin in JavaScript can return anything.
  if (!isObject(reply) || !Number.isInteger(reply.status)) {
    if (currentStep !== undefined) {
      logMessage(x, currentStep, new TypeError("message returned a value that is not a Reply"));
    }
    return refuse("GATEWAY_INTERNAL_ERROR");
  }
  if (reply.reached !== undefined) x.limitReached(reply.reached);
  return reply;
}

function messageFailed(x: LiveExchange): Reply {
  x.currentStep = undefined;
  return refuse("GATEWAY_INTERNAL_ERROR");
}

function logMessage(x: LiveExchange, step: PlacedStep, error: unknown): void {
  if (!countFailure(x, step, error)) return;
  const { requestId } = x.facts;
  const fields = { err: error, plugin: step.name, route: x.route.path, requestId };
  x.runtime.log.error(fields, "a plugin failed at a message");
}

/** Counts what the core calls on a service, so that the metrics show which service is slow or fails. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { HookCounts } from "../../contract/hook-counts.ts";
import { isObject } from "../../is-object.ts";
import type { ServiceHooks } from "../../plugin.ts";
import type { PluginCounts } from "../observe/plugin-counts.ts";

/** Returns hooks that call those of the service, count each call, and return and throw the same. */
export function countedService(
  hooks: ServiceHooks<unknown>,
  counts: PluginCounts,
): ServiceHooks<unknown> {
  const initialized = hooks.initialized?.bind(hooks);
  const ready = hooks.ready?.bind(hooks);
  const backends = hooks.backends?.bind(hooks);
  const admin = hooks.admin?.bind(hooks);
  return {
    get service() {
      return hooks.service;
    },
    ...(initialized && { initialized: () => counts("initialized").call(initialized) }),
    ...(ready && { ready: checked(counts("ready"), ready, isState) }),
    ...(backends && { backends: checked(counts("backends"), backends, Array.isArray) }),
    ...(admin && {
      admin: (request: IncomingMessage, response: ServerResponse): unknown =>
        counts("admin").call(() => answered(() => admin(request, response), response)),
    }),
  };
}

/** Resolves when the response has ended, so that the time of the call includes work after the hook has returned. */
async function answered(run: () => unknown, response: ServerResponse): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  response.once("close", resolve);
  // A plugin in JavaScript may return a promise here.
  await run();
  await promise;
}

/** Returns a function that counts a result which the contract does not allow. Its caller handles such a result. */
function checked<Result>(
  counts: HookCounts,
  run: () => Result,
  isAllowed: (result: unknown) => boolean,
): () => Result {
  return () => {
    const result = counts.call(run);
    if (!isAllowed(result)) counts.failed("contract");
    return result;
  };
}

/** Returns whether the contract allows a result of `ready`. */
function isState(result: unknown): boolean {
  if (result instanceof Promise) return false;
  return result === true || typeof result === "string" || isObject(result);
}

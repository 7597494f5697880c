/** Counts what the core calls on a service, so that the metrics show which service is slow or fails. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { HookCounts } from "../../contract/hook-counts.ts";
import { isObject } from "../../base/is-object.ts";
import type { ServiceHooks } from "../../plugin.ts";
import type { PluginCounts } from "../observe/plugin-counts.ts";

export function countedService(
  hooks: ServiceHooks<unknown>,
  counts: PluginCounts,
): ServiceHooks<unknown> {
  const has = (hook: keyof ServiceHooks<unknown>): boolean => hooks[hook] !== undefined;
  // Each member returns what the hook of the service returns.
  return {
    get service() {
      return hooks.service;
    },
    ...(has("initialized") && {
      initialized: (): unknown => counts("initialized").call(() => hooks.initialized?.()),
    }),
    ...(has("ready") && { ready: checked(counts("ready"), () => hooks.ready?.(), isState) }),
    ...(has("backends") && {
      backends: checked(counts("backends"), () => hooks.backends?.(), Array.isArray),
    }),
    ...(has("admin") && {
      admin: (request: IncomingMessage, response: ServerResponse, address: string): unknown =>
        counts("admin").call(() =>
          answered(() => hooks.admin?.(request, response, address), response),
        ),
    }),
  } as ServiceHooks<unknown>;
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
function checked(
  counts: HookCounts,
  run: () => unknown,
  isAllowed: (result: unknown) => boolean,
): () => unknown {
  return () => {
    const result = counts.call(run);
    if (!isAllowed(result)) counts.failed("contract");
    return result;
  };
}

function isState(result: unknown): boolean {
  if (result instanceof Promise) return false;
  return result === true || typeof result === "string" || isObject(result);
}

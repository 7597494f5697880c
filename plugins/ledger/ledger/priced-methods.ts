/** The prices of methods that are offered over WebSocket only. The option `methods` changes them. */
import type { SubscriptionMethod } from "sluice-gateway/services";
import type { PoolConfig } from "./options.ts";

export interface PricedMethods<Method> {
  readonly methods: ReadonlyMap<string, Method>;
  readonly ending: ReadonlyMap<string, Method>;
}

/** Undefined if the deployment removes the method. */
export function withPrices<Method extends SubscriptionMethod>(
  method: Method,
  changes: PoolConfig["methods"],
): Method | undefined {
  const change = changes[method.name];
  if (change === false) return undefined;
  return {
    ...method,
    openMilliCu: change?.cuMilli ?? method.openMilliCu,
    notificationMilliCu: change?.notificationCuMilli ?? method.notificationMilliCu,
  };
}

/** `known`: the methods with their default prices. */
export function createPricedMethods<Method extends SubscriptionMethod>(
  known: readonly Method[],
  changes: PoolConfig["methods"],
  namesOf: (method: Method) => {
    readonly opening: readonly string[];
    readonly ending: readonly string[];
  },
): PricedMethods<Method> {
  const methods = new Map<string, Method>();
  const ending = new Map<string, Method>();
  for (const each of known) {
    const method = withPrices(each, changes);
    if (method === undefined) continue;
    const names = namesOf(method);
    for (const name of names.opening) methods.set(name, method);
    for (const name of names.ending) ending.set(name, method);
  }
  return { methods, ending };
}

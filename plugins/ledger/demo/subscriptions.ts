/** The older subscriptions of the demo node. The head never moves, so a subscriber gets only one notification. */
import { randomBytes } from "node:crypto";
import type { Method, Methods, Notify } from "./method.ts";

/** The notification, and the method that returns its result. */
const head = (notification: string) => [notification, "chain_getHeader"] as const;
const version = ["state_runtimeVersion", "state_getRuntimeVersion"] as const;

const kinds = {
  chain_subscribeNewHeads: head("chain_newHead"),
  chain_subscribeNewHead: head("chain_newHead"),
  chain_subscribeAllHeads: head("chain_allHead"),
  chain_subscribeFinalizedHeads: head("chain_finalizedHead"),
  state_subscribeRuntimeVersion: version,
  chain_subscribeRuntimeVersion: version,
  state_subscribeStorage: ["state_storage", "state_queryStorageAt"],
} as const;

export function subscriptionMethods(methods: ReadonlyMap<string, Method>, notify: Notify): Methods {
  const open = new Set<unknown>();
  const all: Record<string, Method> = {};
  for (const [name, [notification, value]] of Object.entries(kinds)) {
    all[name] = {
      params: ["keys"],
      run(keys) {
        const result = methods.get(value)?.run(keys);
        const id = randomBytes(8).toString("hex");
        open.add(id);
        // `state_queryStorageAt` returns a list with one change set.
        notify(notification, id, Array.isArray(result) ? result[0] : result);
        return id;
      },
    };
    all[name.replace("subscribe", "unsubscribe")] = {
      params: ["subscription"],
      run: (id) => open.delete(id),
    };
  }
  return all;
}

/** The older subscriptions of the demo node. The head never moves, so a subscriber gets only one notification. */
import { randomBytes } from "node:crypto";
import { readCall } from "./json-rpc.ts";
import type { Method } from "./method.ts";

interface Kind {
  readonly notification: string;
  /** Name of the method that returns the first notification. */
  readonly value: string;
}

const head = (notification: string): Kind => ({ notification, value: "chain_getHeader" });
const version: Kind = { notification: "state_runtimeVersion", value: "state_getRuntimeVersion" };

const kinds: ReadonlyMap<string, Kind> = new Map([
  ["chain_subscribeNewHeads", head("chain_newHead")],
  ["chain_subscribeNewHead", head("chain_newHead")],
  ["chain_subscribeAllHeads", head("chain_allHead")],
  ["chain_subscribeFinalizedHeads", head("chain_finalizedHead")],
  ["state_subscribeRuntimeVersion", version],
  ["chain_subscribeRuntimeVersion", version],
  ["state_subscribeStorage", { notification: "state_storage", value: "state_queryStorageAt" }],
]);

const unsubscribe = /^(?:chain|state)_unsubscribe\w+$/;

export class DemoSubscriptions {
  readonly #methods: ReadonlyMap<string, Method>;
  readonly #open = new Set<string>();

  constructor(methods: ReadonlyMap<string, Method>) {
    this.#methods = methods;
  }

  /** Returns the messages to send. Undefined if the text is not a call of a subscription or has invalid parameters. */
  answer(text: string): readonly string[] | undefined {
    const call = text.includes("ubscribe") ? readCall(text) : undefined;
    if (call === undefined) return undefined;
    const { id, method, args } = call;
    const answer = (result: unknown): string => JSON.stringify({ jsonrpc: "2.0", id, result });
    if (unsubscribe.test(method)) return [answer(this.#open.delete(String(args[0])))];
    const kind = kinds.get(method);
    const value = kind === undefined ? undefined : this.#valueOf(kind, args);
    if (kind === undefined || value === undefined) return undefined;
    const subscription = randomBytes(8).toString("hex");
    this.#open.add(subscription);
    const notified = {
      jsonrpc: "2.0",
      method: kind.notification,
      params: { subscription, result: value },
    };
    return [answer(subscription), JSON.stringify(notified)];
  }

  #valueOf({ value }: Kind, args: readonly unknown[]): unknown {
    try {
      const result = this.#methods.get(value)?.run(...args.slice(0, 1));
      // `state_queryStorageAt` returns a list with one change set.
      return Array.isArray(result) ? result[0] : result;
    } catch {
      return undefined;
    }
  }
}

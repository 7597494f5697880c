/**
 * The methods that submit extrinsics. They are never in the whitelist: only `ledger-ws` offers them, to keys that may
 * write. Source: sc-rpc-api of polkadot-sdk and the JSON-RPC interface specification; prices: decisions.md section 14.
 */
import type { SubmissionMethod } from "sluice-gateway/services";
import type { PoolConfig } from "../options.ts";
import { createPricedMethods, type PricedMethods } from "../priced-methods.ts";

/** The method that submits without a watch, so it does not need a connection of its own. */
export const submitMethod = "author_submitExtrinsic";
export const submitMilliCu = 10_000;

const prices = { openMilliCu: submitMilliCu, notificationMilliCu: 0 };

const known: readonly SubmissionMethod[] = [
  {
    name: "author_submitAndWatchExtrinsic",
    kind: "legacy",
    ...prices,
    endMethod: "author_unwatchExtrinsic",
    notification: "author_extrinsicUpdate",
  },
  {
    name: "transactionWatch_v1_submitAndWatch",
    kind: "watch",
    ...prices,
    endMethod: "transactionWatch_v1_unwatch",
    notification: "transactionWatch_v1_watchEvent",
  },
  {
    name: "transaction_v1_broadcast",
    kind: "broadcast",
    ...prices,
    endMethod: "transaction_v1_stop",
    notification: "",
  },
];

export function isSubmission(name: string): boolean {
  return name === submitMethod || known.some((method) => method.name === name);
}

export function createSubmissionMethods(
  changes: PoolConfig["methods"],
): PricedMethods<SubmissionMethod> {
  return createPricedMethods(known, changes, ({ name, endMethod }) => ({
    opening: [name],
    ending: [endMethod],
  }));
}

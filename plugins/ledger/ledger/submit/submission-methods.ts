/**
 * The methods that submit extrinsics. They are never in the whitelist: only `ledger-ws` offers them, to keys that may
 * write. Source: sc-rpc-api of polkadot-sdk and the JSON-RPC interface specification; prices: decisions.md section 14.
 */
import type { SubmissionMethod } from "sluice-gateway/services";
import type { PoolConfig } from "../options.ts";

/** The method that submits without a watch, so it does not need a connection of its own. */
export const submitMethod = "author_submitExtrinsic";
export const submitMilliCu = 10_000;

const known: readonly Pick<SubmissionMethod, "name" | "kind" | "endMethod" | "notification">[] = [
  {
    name: "author_submitAndWatchExtrinsic",
    kind: "legacy",
    endMethod: "author_unwatchExtrinsic",
    notification: "author_extrinsicUpdate",
  },
  {
    name: "transactionWatch_v1_submitAndWatch",
    kind: "watch",
    endMethod: "transactionWatch_v1_unwatch",
    notification: "transactionWatch_v1_watchEvent",
  },
  {
    name: "transaction_v1_broadcast",
    kind: "broadcast",
    endMethod: "transaction_v1_stop",
    notification: "",
  },
];

export function isSubmission(name: string): boolean {
  return name === submitMethod || known.some((method) => method.name === name);
}

export interface SubmissionMethods {
  readonly methods: ReadonlyMap<string, SubmissionMethod>;
  readonly ending: ReadonlyMap<string, SubmissionMethod>;
}

/** Returns the methods of a deployment. The option `methods` removes them or changes their prices. */
export function createSubmissionMethods(changes: PoolConfig["methods"]): SubmissionMethods {
  const methods = new Map<string, SubmissionMethod>();
  const ending = new Map<string, SubmissionMethod>();
  for (const each of known) {
    const change = changes[each.name];
    if (change === false) continue;
    const method: SubmissionMethod = {
      ...each,
      openMilliCu: change?.cuMilli ?? submitMilliCu,
      notificationMilliCu: change?.notificationCuMilli ?? 0,
    };
    methods.set(method.name, method);
    ending.set(method.endMethod, method);
  }
  return { methods, ending };
}

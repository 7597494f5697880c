/**
 * The extrinsics that a connection has submitted and still watches or broadcasts. A submission costs its price as soon as
 * the node has answered it, and is never sent a second time.
 */
import type {
  ClientSubscription,
  LedgerSubmissions,
  SubmissionMethod,
} from "sluice-gateway/services";
import { invalidParams, tooManySubscriptions, unavailable, type RpcCall } from "./call-replies.ts";
import type { Quota } from "./key-limit.ts";
import { OpenSubscriptions, type SubscriptionDeps } from "./open-subscriptions.ts";
import { answerParams, readHex, readText } from "./rpc-params.ts";

const maxSubmissions = 16;

export interface SubmissionsDeps extends SubscriptionDeps {
  readonly ledger: LedgerSubmissions;
  readonly quota: Quota;
}

export class Submissions extends OpenSubscriptions<SubmissionMethod, ClientSubscription> {
  readonly #deps: SubmissionsDeps;

  constructor(deps: SubmissionsDeps) {
    super(deps, {
      max: maxSubmissions,
      quotaOf: () => deps.quota,
      // The node has worked on the extrinsic.
      isAlwaysCharged: true,
      // The specification has its own answer for too many broadcasts.
      refuseFull: (call, { kind }, full) =>
        kind === "broadcast"
          ? deps.replies.answer(call, "null")
          : deps.replies.refuse(call, tooManySubscriptions(full)),
      lastMember: ({ kind }, { code, error } = unavailable) => {
        // A broadcast has no notifications, so it stays open until the client ends it.
        if (kind === "broadcast") return undefined;
        return kind === "watch" ? droppedBecause(code) : `"error":${error}`;
      },
    });
    this.#deps = deps;
  }

  handles(method: string): boolean {
    const { methods, ending } = this.#deps.ledger;
    return methods.has(method) || ending.has(method);
  }

  answer(call: RpcCall): Promise<void> {
    const { ledger, replies } = this.#deps;
    const method = ledger.methods.get(call.method);
    const ended = ledger.ending.get(call.method);
    return answerParams(call, replies, async ([param]) => {
      if (method !== undefined) {
        const extrinsic = readHex(param, "transaction");
        await this.open(call, method, () => ledger.submit(method, extrinsic));
      } else if (ended !== undefined) this.#stop(call, ended, readText(param, "subscription"));
    });
  }

  #stop(call: RpcCall, method: SubmissionMethod, id: string): void {
    const { replies } = this.#deps;
    const isOpen = this.get(id)?.method === method && this.remove(id);
    if (method.kind === "legacy") return replies.answer(call, String(isOpen));
    if (isOpen) return replies.answer(call, "null");
    replies.refuse(call, { code: "INVALID_PARAMS", error: invalidParams("it is not active") });
  }
}

function droppedBecause(code: string): string {
  const error = `the gateway no longer watches this transaction, which may be included or not: ${code}`;
  return `"result":${JSON.stringify({ event: "dropped", error })}`;
}

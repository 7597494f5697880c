/**
 * The extrinsics that a connection has submitted and still watches or broadcasts. A submission costs its price as soon as
 * the node has answered it, and is never sent a second time.
 */
import { randomBytes } from "node:crypto";
import type { CallReporter } from "sluice-gateway/plugin";
import type {
  ClientSubmission,
  LedgerSubmissions,
  SubmissionAnswer,
  SubmissionMethod,
} from "sluice-gateway/services";
import { guarded } from "sluice-gateway/toolkit";
import { InvalidParam, readHex, readParams, readText } from "./follow-params.ts";
import {
  notificationOf,
  type NotifiedSubscription,
  type PaidNotifications,
  type Refusal,
} from "./paid-notifications.ts";
import type { Payer, Payment } from "./payer.ts";
import {
  internalError,
  invalidParams,
  tooManySubscriptions,
  unavailable,
  upstreamErrorCodes,
} from "./rpc-error.ts";
import type { RpcCall } from "./subscriptions.ts";

/** Maximum number of watched or broadcast extrinsics of a connection. */
const maxSubmissions = 16;

export interface SubmissionsDeps {
  readonly ledger: LedgerSubmissions;
  readonly payer: Payer;
  readonly notifications: PaidNotifications;
  readonly calls: CallReporter;
  /** Sends a text message. */
  readonly send: (message: string) => void;
  /** Called for an exception, which ends the connection. */
  readonly onError: (error: unknown) => void;
}

interface Open extends NotifiedSubscription {
  readonly method: SubmissionMethod;
  readonly upstream: ClientSubmission;
}

export class Submissions {
  readonly #deps: SubmissionsDeps;
  readonly #open = new Map<string, Open>();
  /** Number of extrinsics that are being submitted. */
  #submitting = 0;
  #isClosed = false;

  constructor(deps: SubmissionsDeps) {
    this.#deps = deps;
  }

  /** Returns true if this call submits an extrinsic that stays open, or ends such a submission. */
  handles(method: string): boolean {
    const { methods, ending } = this.#deps.ledger;
    return methods.has(method) || ending.has(method);
  }

  /** Answers a call for which `handles` returns true. Sends the answer, unless it rejects. */
  async answer(call: RpcCall): Promise<void> {
    const { methods, ending } = this.#deps.ledger;
    const method = methods.get(call.method);
    const ended = ending.get(call.method);
    try {
      const [param] = readParams(call.method, call.params);
      if (method !== undefined) await this.#submit(call, method, readHex(param, "transaction"));
      else if (ended !== undefined) this.#endCall(call, ended, readText(param, "subscription"));
    } catch (error) {
      if (!(error instanceof InvalidParam)) throw error;
      this.#refuse(call, { code: "INVALID_PARAMS", error: invalidParams(error.message) });
    }
  }

  /** Ends all watches and broadcasts. */
  close(): void {
    this.#isClosed = true;
    for (const { upstream } of this.#open.values()) upstream.close();
    this.#open.clear();
  }

  async #submit(call: RpcCall, method: SubmissionMethod, extrinsic: string): Promise<void> {
    if (this.#open.size + this.#submitting >= maxSubmissions) return this.#refuseFull(call, method);
    this.#submitting++;
    try {
      const payment = await this.#deps.payer.reserve(method.openMilliCu);
      if ("error" in payment) return this.#refuse(call, payment);
      const answer = await this.#deps.ledger.submit(method, extrinsic);
      await this.#answerPaid(call, method, answer, payment);
    } finally {
      this.#submitting--;
    }
  }

  async #answerPaid(
    call: RpcCall,
    method: SubmissionMethod,
    answer: SubmissionAnswer,
    payment: Payment,
  ): Promise<void> {
    if (answer.kind === "full" || answer.kind === "failed") {
      payment.release();
      if (answer.kind === "full") return this.#refuseFull(call, method);
      return this.#refuse(call, { code: upstreamErrorCodes.failed, error: internalError });
    }
    // The node has worked on the extrinsic, so it is charged even if the client has left or the node refused.
    const lines = [{ method: method.name, costMilliCu: method.openMilliCu }];
    const isPaid = await payment.settle(lines);
    if (answer.kind === "error") {
      if (!isPaid) return this.#refuse(call, unavailable);
      return this.#refuse(call, { code: upstreamErrorCodes.error, error: answer.error });
    }
    if (isPaid && !this.#isClosed) return this.#begin(call, method, answer.submission);
    answer.submission.close();
    this.#refuse(call, unavailable);
  }

  #begin(call: RpcCall, method: SubmissionMethod, upstream: ClientSubmission): void {
    const { notifications, onError } = this.#deps;
    const all = this.#open;
    const open: Open = {
      id: randomBytes(12).toString("base64url"),
      method,
      upstream,
      get isOpen() {
        return all.get(this.id) === this;
      },
      refuse: (refusal) => this.#end(open, refusal),
    };
    all.set(open.id, open);
    this.#answer(call, `"${open.id}"`);
    const lost = { code: "UPSTREAM_ERROR", error: internalError };
    upstream.start({
      onNotification: guarded((result: string, isLast: boolean) => {
        notifications.add(open, result, isLast ? () => void this.#remove(open.id) : undefined);
      }, onError),
      // A broadcast has no notifications. The client still ends it.
      onLost: guarded(() => {
        if (method.kind !== "broadcast") this.#end(open, lost);
      }, onError),
    });
  }

  #endCall(call: RpcCall, method: SubmissionMethod, id: string): void {
    const isOpen = this.#open.get(id)?.method === method && this.#remove(id);
    if (method.kind === "legacy") return this.#answer(call, String(isOpen));
    if (isOpen) return this.#answer(call, "null");
    this.#refuse(call, { code: "INVALID_PARAMS", error: invalidParams("it is not active") });
  }

  #remove(id: string): boolean {
    const open = this.#open.get(id);
    if (open === undefined) return false;
    this.#open.delete(id);
    open.upstream.close();
    return true;
  }

  /** Ends a watch with its last notification, which is free. */
  #end(open: Open, { code, error }: Refusal): void {
    if (!this.#remove(open.id)) return;
    this.#deps.calls.called({ kind: "node", name: open.method.name, isListed: true, code });
    const last = open.method.kind === "watch" ? droppedBecause(code) : `"error":${error}`;
    this.#deps.send(notificationOf(open, last));
  }

  /** The specification has its own answer for too many broadcasts. */
  #refuseFull(call: RpcCall, { kind }: SubmissionMethod): void {
    if (kind === "broadcast") this.#answer(call, "null");
    else this.#refuse(call, tooManySubscriptions);
  }

  #refuse(call: RpcCall, { code, error }: Refusal): void {
    this.#report(call, code);
    this.#deps.send(`{"jsonrpc":"2.0","id":${call.id},"error":${error}}`);
  }

  /** `result`: JSON text. */
  #answer(call: RpcCall, result: string): void {
    this.#report(call);
    this.#deps.send(`{"jsonrpc":"2.0","id":${call.id},"result":${result}}`);
  }

  #report({ method }: RpcCall, code?: string): void {
    this.#deps.calls.called({ kind: "node", name: method, isListed: true, code });
  }
}

/** Returns the last event of `transactionWatch_v1`. `code`: code of the refusal. */
function droppedBecause(code: string): string {
  const error = `the gateway no longer watches this transaction, which may be included or not: ${code}`;
  return `"result":${JSON.stringify({ event: "dropped", error })}`;
}

import type { CallReporter } from "sluice-gateway/plugin";
import type { CallRefusal } from "./rpc-error.ts";

/** A JSON-RPC call. `id` and `params` are JSON text; `params` is empty if there are none. */
export interface RpcCall {
  readonly id: string;
  readonly method: string;
  readonly params: string;
}

/** The error of a call or subscription, as JSON text, with its code for logs and metrics. */
export type Refusal = Pick<CallRefusal, "error"> & { readonly code: string };

export class CallReplies {
  readonly send: (message: string) => void;
  readonly #calls: CallReporter;

  constructor(send: (message: string) => void, calls: CallReporter) {
    this.send = send;
    this.#calls = calls;
  }

  /** `result`: JSON text. `name`: name of the method in logs and metrics, if it differs from the client's. */
  answer(call: RpcCall, result: string, name = call.method): void {
    this.report(name);
    this.send(`{"jsonrpc":"2.0","id":${call.id},"result":${result}}`);
  }

  refuse(call: RpcCall, { code, error }: Refusal, name = call.method): void {
    this.report(name, code);
    this.send(`{"jsonrpc":"2.0","id":${call.id},"error":${error}}`);
  }

  report(name: string, code?: string): void {
    this.#calls.called({ kind: "node", name, isListed: true, code });
  }
}

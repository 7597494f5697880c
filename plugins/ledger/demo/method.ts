/** A JSON-RPC method of the demo node. */

/** `params` are given by position or by these names; `run` returns the result or throws `RpcFailure`. */
export interface Method {
  readonly params: readonly string[];
  run(...params: readonly unknown[]): unknown;
}

export type Methods = Readonly<Record<string, Method>>;

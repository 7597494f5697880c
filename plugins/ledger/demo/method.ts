/** A method of the demo node. `params`: names of the parameters. `run`: returns the result or throws `RpcFailure`. */
export interface Method {
  readonly params: readonly string[];
  run(...params: readonly unknown[]): unknown;
}

export type Methods = Readonly<Record<string, Method>>;

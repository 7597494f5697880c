/** The service `evm-node`: a node of an EVM chain. Implemented in plugins/extras/evm-node. */

declare module "sluice-gateway/plugin" {
  interface ServiceTypes {
    "evm-node": EvmNode;
  }
}

export interface EvmNode {
  /** Calls a method that the options allow, and returns the unchanged `result`. Rejects with an Error safe to log. */
  call(method: string, params?: readonly unknown[]): Promise<unknown>;
  /** Returns the number of the newest block. Undefined before the node has answered. */
  head(): number | undefined;
}

/** The JSON-RPC methods of the demo node, each with the names of its parameters as a Substrate node declares them. */
import type { Chain } from "./chain.ts";
import type { Method } from "./method.ts";
import { accountMethods } from "./methods-account.ts";
import { chainMethods } from "./methods-chain.ts";
import { midnightMethods } from "./methods-midnight.ts";
import { stateMethods } from "./methods-state.ts";
import { systemMethods } from "./methods-system.ts";

/** Returns all methods by name, including `rpc_methods`. */
export function demoMethods(chain: Chain): ReadonlyMap<string, Method> {
  const methods = new Map<string, Method>(
    Object.entries({
      ...systemMethods(chain),
      ...accountMethods(chain),
      ...chainMethods(chain),
      ...stateMethods(chain),
      ...midnightMethods(chain),
    }),
  );
  methods.set("rpc_methods", { params: [], run: () => ({ methods: names }) });
  const names = [...methods.keys()].toSorted();
  return methods;
}

/** The `system_` methods: identity and health of the demo node. */
import type { Chain } from "./chain.ts";
import type { Methods } from "./method.ts";

/** Different names, so that nobody mistakes the recording for the chain whose runtime was recorded. */
const demoIdentity = {
  chain: "Coretime Demo",
  name: "Sluice Demo Node",
  version: "1.0.0-recording",
} as const;

export function systemMethods({ head, recording }: Chain): Methods {
  const constant = (result: unknown) => ({ params: [], run: () => result });
  return {
    system_chain: constant(demoIdentity.chain),
    system_chainType: constant("Development"),
    system_name: constant(demoIdentity.name),
    system_version: constant(demoIdentity.version),
    system_properties: constant(recording.properties),
    system_health: constant({ peers: 0, isSyncing: false, shouldHavePeers: false }),
    system_syncState: constant({ startingBlock: 0, currentBlock: head, highestBlock: head }),
  };
}

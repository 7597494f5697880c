import { hash } from "node:crypto";
import { isAbsent } from "sluice-gateway/internal/toolkit";
import { accountIdOf } from "../ledger/decode/ss58.ts";
import type { RecordedChain } from "./chain.ts";
import { invalidParams, readHash, readText, type Method, type Methods } from "./method.ts";
import { chainMethods } from "./methods-chain.ts";
import { stateMethods } from "./methods-state.ts";

export function demoMethods(chain: RecordedChain): ReadonlyMap<string, Method> {
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

/** Other names than those of the recorded chain, so that the two are not confused. */
const demoIdentity = {
  chain: "Coretime Demo",
  name: "Sluice Demo Node",
  version: "1.0.0-recording",
} as const;

function systemMethods({ head, recording }: RecordedChain): Methods {
  const constant = (result: unknown) => ({ params: [], run: () => result });
  return {
    system_chain: constant(demoIdentity.chain),
    system_chainType: constant("Development"),
    system_name: constant(demoIdentity.name),
    system_version: constant(demoIdentity.version),
    chainSpec_v1_chainName: constant(demoIdentity.chain),
    chainSpec_v1_genesisHash: constant(recording.genesisHash),
    chainSpec_v1_properties: constant(recording.properties),
    system_properties: constant(recording.properties),
    system_health: constant({ peers: 0, isSyncing: false, shouldHavePeers: false }),
    system_syncState: constant({ startingBlock: 0, currentBlock: head, highestBlock: head }),
  };
}

/** No extrinsics are pending, because a recording accepts none. */
function accountMethods(chain: RecordedChain): Methods {
  const accountNextIndex: Method = {
    params: ["account"],
    run(account) {
      const address = readText(account, "account");
      // Nodes accept an address with any prefix, but not an account id in hex.
      const id = address.startsWith("0x") ? undefined : accountIdOf(address);
      if (id?.length !== 32) throw invalidParams("account: not an SS58 address");
      return chain.nonceAt(Buffer.from(id).toString("hex"), chain.head);
    },
  };
  return {
    system_accountNextIndex: accountNextIndex,
    account_nextIndex: accountNextIndex,
    author_pendingExtrinsics: { params: [], run: () => [] },
  };
}

/**
 * The gateway maps its `ledger_` names to these methods. The recorded runtime has no Midnight ledger, so the answers are
 * synthetic and say so. They have the form of a Midnight node's answers.
 */
function midnightMethods(chain: RecordedChain): Methods {
  /** For an unknown block, a Midnight node also answers -32602. */
  const numberOf = (at: unknown): number => {
    const number = isAbsent(at) ? chain.head : chain.numberOf(readHash(at, "at"));
    if (number === undefined) throw invalidParams("at: unknown block");
    return number;
  };
  return {
    midnight_apiVersions: { params: [], run: () => [2] },
    midnight_ledgerVersion: {
      params: ["at"],
      run(at) {
        numberOf(at);
        return "0.0.0-synthetic";
      },
    },
    /** Parameters and results are hex without `0x`. The bytes are a text with the contract and the block. */
    midnight_contractState: {
      params: ["contract_address", "at"],
      run(address, at) {
        const contract = readText(address, "contract_address").toLowerCase();
        if (!/^(?:[0-9a-f]{2})+$/.test(contract)) {
          throw invalidParams("contract_address: expected hex bytes without 0x");
        }
        return Buffer.from(`synthetic state of ${contract} at ${numberOf(at)}`).toString("hex");
      },
    },
    midnight_zswapStateRoot: {
      params: ["at"],
      run: (at) => [...hash("sha256", `synthetic zswap state root at ${numberOf(at)}`, "buffer")],
    },
  };
}

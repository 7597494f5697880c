/**
 * The `midnight_` methods, which the gateway's `ledger_` names lead to. The recorded runtime has no Midnight ledger:
 * these answers are synthetic and say so, in the shapes that a Midnight node gives.
 */
import { hash } from "node:crypto";
import type { Chain } from "./chain.ts";
import { invalidParams } from "./failure.ts";
import type { Methods } from "./method.ts";
import { isAbsent, readHash, readText } from "./params.ts";

export function midnightMethods(chain: Chain): Methods {
  /** A Midnight node answers -32602 for an unknown block here, too. */
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
    /** Hex without `0x`, both ways. The bytes are text that names the contract and the block. */
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
    /** 32 bytes as a list of numbers. */
    midnight_zswapStateRoot: {
      params: ["at"],
      run: (at) => [...hash("sha256", `synthetic zswap state root at ${numberOf(at)}`, "buffer")],
    },
  };
}

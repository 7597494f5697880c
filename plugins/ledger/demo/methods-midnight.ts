/**
 * The `midnight_` methods, to which the gateway maps its `ledger_` names. The recorded runtime has no Midnight ledger,
 * so the answers are synthetic and say so. They have the form of a Midnight node's answers.
 */
import { hash } from "node:crypto";
import type { RecordedChain } from "./chain.ts";
import { invalidParams } from "./failure.ts";
import type { Methods } from "./method.ts";
import { isAbsent } from "sluice-gateway/internal/toolkit";
import { readHash, readText } from "./params.ts";

export function midnightMethods(chain: RecordedChain): Methods {
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
    /** The result is 32 bytes as a list of numbers. */
    midnight_zswapStateRoot: {
      params: ["at"],
      run: (at) => [...hash("sha256", `synthetic zswap state root at ${numberOf(at)}`, "buffer")],
    },
  };
}

/** The `chain_` methods: blocks and headers. The answer for an unknown hash is null, like that of a node. */
import type { RecordedChain } from "./chain.ts";
import { readHash, readNumber, type Method, type Methods } from "./method.ts";
import { isAbsent } from "sluice-gateway/internal/toolkit";

export function chainMethods(chain: RecordedChain): Methods {
  const numberOf = (hash: unknown) =>
    isAbsent(hash) ? chain.head : chain.numberOf(readHash(hash, "hash"));
  const hashOf = (number: unknown) => {
    const wanted = readNumber(number, "hash");
    return wanted > chain.head ? null : chain.block(wanted).hash;
  };
  const getBlockHash: Method = {
    params: ["hash"],
    run(wanted) {
      if (isAbsent(wanted)) return chain.block(chain.head).hash;
      return Array.isArray(wanted) ? wanted.map(hashOf) : hashOf(wanted);
    },
  };
  const getFinalizedHead: Method = { params: [], run: () => chain.block(chain.head).hash };
  return {
    chain_getBlockHash: getBlockHash,
    chain_getHead: getBlockHash,
    chain_getFinalizedHead: getFinalizedHead,
    chain_getFinalisedHead: getFinalizedHead,
    chain_getHeader: {
      params: ["hash"],
      run(hash) {
        const number = numberOf(hash);
        return number === undefined ? null : chain.block(number).header;
      },
    },
    chain_getBlock: {
      params: ["hash"],
      run(hash) {
        const number = numberOf(hash);
        if (number === undefined) return null;
        const { header, extrinsics } = chain.block(number);
        return { block: { header, extrinsics }, justifications: null };
      },
    },
  };
}

/** Proves the reads of tools where that is possible. The results name what was proved. */
import type { Prover, ReadProof, Tool } from "sluice-gateway/services";
import type { Chain } from "./node.ts";

/** `toolsOf`: creates the tools for a chain. Each call gets a chain of its own, which records the reads of that call. */
export function provedTools(
  chain: Chain,
  prove: NonNullable<Prover["call"]>,
  toolsOf: (chain: Chain) => readonly Tool<never>[],
): readonly Tool<never>[] {
  return toolsOf(chain).map((tool, index) => ({
    ...tool,
    async call(input, context) {
      const proof: ReadProof[] = [];
      const own = toolsOf(recording(chain, prove, proof))[index] ?? tool;
      const result = await own.call(input, context);
      return result.ok && proof.length > 0 ? { ...result, proof } : result;
    },
  }));
}

function recording(
  { ledger, decoder }: Chain,
  prove: NonNullable<Prover["call"]>,
  proof: ReadProof[],
): Chain {
  const proving: Chain["ledger"] = {
    methods: ledger.methods,
    internal: (name) => ledger.internal(name),
    async call(method, params, options) {
      const proved = await prove(method, params, options);
      proof.push({ method: method.name, proof: proved.proof });
      return proved.answer;
    },
  };
  return {
    ledger: proving,
    decoder: {
      extrinsics: (block, hash, options) => decoder.extrinsics(block, hash, options),
      accountId: (address) => decoder.accountId(address),
      summary: (extrinsic, options) => decoder.summary(extrinsic, options),
      events: (hash, options) => decoder.events(hash, { signal: options?.signal, ledger: proving }),
      account: (id, hash, options) =>
        decoder.account(id, hash, { signal: options?.signal, ledger: proving }),
    },
  };
}

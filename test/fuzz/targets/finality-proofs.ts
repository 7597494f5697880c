/**
 * Finality proofs that were damaged: they are read or refused without an exception, and whatever is accepted leads to
 * the block and the authority set that the real proof leads to.
 */
import assert from "node:assert/strict";
import * as fc from "fast-check";
import { FinalizedChain } from "../../../plugins/proofs/proofs/finalized-chain.ts";
import { checkHeads } from "../../../plugins/proofs/proofs/head-check.ts";
import { headerOfJson } from "../../../plugins/proofs/proofs/header.ts";
import { TestChain, voters } from "../../plugins/proofs/test-chain.ts";
import { mutantsOf } from "../mutants.ts";
import type { FuzzTarget } from "../target.ts";

const damaged = (text: string): fc.Arbitrary<string> =>
  mutantsOf(fc.constant(Buffer.from(text.slice(2), "hex")), 3).map(
    (bytes) => `0x${Buffer.from(bytes).toString("hex")}`,
  );

export const finalityProofs: FuzzTarget = {
  name: "finality-proofs",
  async run(random) {
    const chain = new TestChain(voters(4)).add({ next: voters(3), delay: 2 }, 6).finalize(3);
    const before = new FinalizedChain(chain.checkpoint(0)).checkpoint;
    const target = chain.at(3);
    const honest = chain.prove(1);
    await random.check("damaged proofs", damaged(honest), 200, async (proof) => {
      const proved = new FinalizedChain(before);
      const node = chain.node("a", (method) =>
        method === "grandpa_proveFinality" ? proof : undefined,
      );
      const [head] = await checkHeads([node], proved);
      const outcome = [proved.number, proved.hash, proved.setId];
      if (head?.state === "proved") assert.deepEqual(outcome, [3, target.hash, 1n]);
      else assert.deepEqual(outcome, [before.number, before.hash, 0n]);
    });
    const header = fc.record({
      ...Object.fromEntries(
        Object.entries(target.header).map(([name, value]) => [
          name,
          fc.oneof(fc.constant(value), fc.jsonValue()),
        ]),
      ),
      digest: fc.record({
        logs: fc.array(fc.oneof(damaged("0x0446524e4b080101"), fc.jsonValue())),
      }),
    });
    await random.check("damaged headers", header, 200, (json) => {
      assert.notEqual(headerOfJson(json)?.hash, target.hash);
    });
  },
};

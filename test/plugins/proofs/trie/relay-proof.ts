/** A proof of the state of a real relay chain. Chopsticks contains it, but does not export it. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const file = import.meta
  .resolve("@acala-network/chopsticks-core/blockchain/inherent/parachain/validation-data");
const [list = ""] = /trieNodes: \[[^\]]+\]/.exec(readFileSync(fileURLToPath(file), "utf8")) ?? [];

/** The nodes of the proof, as text with `0x`. The first node of a path is found by its hash. */
export const relayNodes: readonly string[] = list.match(/0x[0-9a-f]+/g) ?? [];

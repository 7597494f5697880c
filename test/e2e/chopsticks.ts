/** Runs a real runtime as a node, offline: chopsticks with the chain specification in ../shared. */
import { existsSync } from "node:fs";
import { resultOf } from "../plugins/ledger/demo/rpc-client.ts";
import { startNodeProcess, type NodeProcess } from "./node-process.ts";

export const specsFolder = new URL("../../../shared/fixtures/specs/", import.meta.url);

export const withoutSpecs: string | false =
  process.env["CI"] !== "true" && !existsSync(specsFolder)
    ? "needs ../shared/fixtures/specs"
    : false;

export interface Chopsticks extends NodeProcess {
  /** Resolves with the hash of the block. */
  newBlock(): Promise<unknown>;
}

/** Starts in about two seconds with six funded accounts. It has only its first two blocks until `newBlock` is called. */
export async function startChopsticks(): Promise<Chopsticks> {
  const node = await startNodeProcess("./chopsticks-process.ts");
  return Object.assign(node, { newBlock: () => resultOf(node.url, "dev_newBlock", {}) });
}

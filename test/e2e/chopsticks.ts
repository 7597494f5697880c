/**
 * Runs a real runtime as a node, offline: chopsticks with the chain specification in ../shared. Without ../shared its
 * tests are skipped; with CI=true they fail.
 */
import { existsSync } from "node:fs";
import { startNodeProcess, type NodeProcess } from "./node-process.ts";

export const specsFolder = new URL("../../../shared/fixtures/specs/", import.meta.url);

/** For the option `skip` of a test. */
export const withoutSpecs: string | false =
  process.env["CI"] !== "true" && !existsSync(specsFolder)
    ? "needs ../shared/fixtures/specs"
    : false;

export type Chopsticks = NodeProcess;

/**
 * Starts in about two seconds with six funded accounts. It has only its first two blocks until `dev_newBlock` is
 * called.
 */
export function startChopsticks(): Promise<Chopsticks> {
  return startNodeProcess("./chopsticks-process.ts");
}

/** Starts the published build of Sluice with a pipeline and a key that no limit stops. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { builtSluice } from "./built-package.ts";
import { issueKey } from "./key.ts";
import { startPeer, type Peer } from "./process.ts";

export interface StartedSluice {
  readonly peer: Peer;
  readonly key: string;
  readonly headers: readonly string[];
  /** Milliseconds from the start of the process until it listens. */
  readonly readyMs: number;
}

/**
 * `folder`: for the pipeline's files. `core`: as for startPeer. `checkout`: one that has been built; by default, this
 * one is built.
 */
export async function startSluice(
  pipeline: string,
  folder: string,
  core: number | string,
  checkout?: string,
): Promise<StartedSluice> {
  mkdirSync(folder, { recursive: true });
  const file = join(folder, "pipeline.yaml");
  writeFileSync(file, pipeline);
  const key = issueKey(file, {}, checkout);
  const program =
    checkout === undefined ? builtSluice() : [process.execPath, join(checkout, "dist/src/main.js")];
  const begun = performance.now();
  const peer = await startPeer([...program, "start", "--json", "--config", file], { core });
  const readyMs = performance.now() - begun;
  return { peer, key, headers: [`authorization: Bearer ${key}`], readyMs };
}

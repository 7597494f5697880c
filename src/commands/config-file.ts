/** Which pipeline.yaml a command reads. */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";

/** The root of this package, in the sources and in the published package alike. */
export const packageRoot = resolve(import.meta.dirname, "../..");

/** The pipeline.yaml that ships with Sluice: the whole gateway. */
export const shippedPipeline = join(packageRoot, "pipeline.yaml");

/**
 * `named` (`--config`, else SLUICE_CONFIG), else ./pipeline.yaml, else the shipped file for commands that may fall back
 * on it. All others get the path of ./pipeline.yaml although it is missing, and report that: the shipped file belongs to
 * the package, and so would the data folder beside it, which an upgrade of the package deletes.
 */
export function findConfigFile(named: string | undefined, mayUseShipped: boolean): string {
  if (named !== undefined && named !== "") return resolve(named);
  const local = resolve("pipeline.yaml");
  return mayUseShipped && !existsSync(local) ? shippedPipeline : local;
}

/** Finds the pipeline.yaml that a command reads. */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { packageFile } from "../package-files.ts";

/** The pipeline.yaml that ships with Sluice: the whole gateway. */
export const shippedPipeline = packageFile("pipeline.yaml");

/**
 * Returns the absolute path of `named` (`--config`, else SLUICE_CONFIG), else ./pipeline.yaml. If ./pipeline.yaml is
 * missing, commands with `mayUseShipped` get the shipped file. All other commands get the path of the missing file and
 * report it: they would keep their data next to the shipped file, in the package, and an upgrade of the package deletes
 * that folder.
 */
export function findConfigFile(named: string | undefined, mayUseShipped: boolean): string {
  if (named !== undefined && named !== "") return resolve(named);
  const local = resolve("pipeline.yaml");
  return mayUseShipped && !existsSync(local) ? shippedPipeline : local;
}
